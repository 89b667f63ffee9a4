"""Dead letters from the command line: looked at without danger, sent again as they came, given up when one says so."""

from __future__ import annotations

import io
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from tests.support.records import append, committed
from tracejudge.testing import make_trace
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.bytes_shown import preview
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from tracejudge_sdk.codec import encode
from tracejudge_sdk.transports.sqlite_log import SqliteLog

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

HOSTILE = b"\x1b[2J\x1b]0;owned\x07 {not json \xff\xfe \xe2\x80\xae caf\xc3\xa9"


class Desk:
    """A folder with settings, and commands in it."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[bytes]) -> None:
        self.queue = folder / "queue.db"
        self._capture = capture

    def __call__(self, *args: str, expect: int = EXIT_DONE) -> str:
        self._capture.readouterr()
        status = run([*args])
        shown = self._capture.readouterr()
        said = (shown.out + shown.err).decode()
        assert status == expect, said
        return said

    def json(self, *args: str, expect: int = EXIT_DONE) -> Any:
        self._capture.readouterr()
        status = run([*args, "--json"])
        shown = self._capture.readouterr()
        assert status == expect, shown.out + shown.err
        return json.loads(shown.out)


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], store_url: str
) -> Desk:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tracejudge.toml").write_text(f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n')
    return Desk(tmp_path, capfdbinary)


def test_a_dead_letter_is_listed_shown_harmlessly_and_given_back_byte_for_byte(
    desk: Desk, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = SqliteLog(desk.queue)
    log.append([(b"\x00key", HOSTILE, (("h", b"\x1b[31m"),), 5)])
    log.close()
    append(desk.queue, [make_trace(1)])
    run(["consume", "--until-idle", "--json"])
    capfdbinary.readouterr()
    assert run(["dead-letters", "list", "--json"]) == EXIT_DONE
    (listed,) = json.loads(capfdbinary.readouterr().out)
    assert run(["dead-letters"]) == EXIT_DONE
    assert listed["id"].encode() in capfdbinary.readouterr().out
    assert (listed["source"], listed["partition"], listed["offset"]) == ("sqlite:queue.db", 0, 0)
    assert (listed["reason"], listed["bytes"], listed["state"]) == ("not_utf8", len(HOSTILE), "open")
    assert run(["dead-letters", "show", listed["id"]]) == EXIT_DONE
    shown = capfdbinary.readouterr().out
    assert b"\x1b" not in shown.replace(b"\n", b"")
    assert "café".encode() in shown
    assert b"\\x1b[2J" in shown
    assert b"\\xff\\xfe" in shown
    assert run(["dead-letters", "show", listed["id"], "--raw"]) == EXIT_DONE
    assert capfdbinary.readouterr().out == HOSTILE
    assert run(["dead-letters", "show", listed["id"], "--json"]) == EXIT_DONE
    facts = json.loads(capfdbinary.readouterr().out)
    assert b64decode(facts["value_base64"]) == HOSTILE
    assert b64decode(facts["key_base64"]) == b"\x00key"
    assert [(name, b64decode(value)) for name, value in facts["headers"]] == [("h", b"\x1b[31m")]


def test_what_is_replayed_goes_to_the_queue_as_it_came_and_is_marked(desk: Desk) -> None:
    """Here as after an upgrade: the same bytes, which this release can read at the second time."""
    log = SqliteLog(desk.queue)
    log.append([(b"k", b"{", (("h", b"1"),), 5), (None, b"\xff", (), 6)])
    log.close()
    desk("consume", "--until-idle")
    said = desk.json("dead-letters", "replay", "--reason", "not_json")
    assert said == {"replayed": 1, "of_another_source": 0}
    log = SqliteLog(desk.queue)
    (again,) = log.read(from_offset=2)
    log.close()
    assert (again.key, again.value, again.headers) == (b"k", b"{", (("h", b"1"),))
    assert [row["reason"] for row in desk.json("dead-letters", "list")] == ["not_utf8"]
    (replayed,) = desk.json("dead-letters", "list", "--state", "replayed")
    assert replayed["reason"] == "not_json"
    assert replayed["marked_at"] is not None
    desk("consume", "--until-idle")
    offsets = {row["offset"] for row in desk.json("dead-letters", "list")}
    assert offsets == {1, 2}, "what still cannot be read is a new dead letter"
    assert desk.json("dead-letters", "replay", "--reason", "not_json")["replayed"] == 1


def test_what_is_dropped_is_gone_but_for_its_place(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    append(desk.queue, [b"a secret, not json"])
    told = desk("consume", "--until-idle")
    assert "1 dead letter\n" in told
    assert "1 dead letter: not_json" in told
    (row,) = desk.json("dead-letters", "list")
    with monkeypatch.context() as patch:
        patch.setattr("click.confirm", _no)
        desk("dead-letters", "drop", row["id"], expect=EXIT_INTERRUPTED)
        patch.undo()
        patch.setattr("sys.stdin", io.StringIO(""))
        assert "--yes" in desk("dead-letters", "drop", row["id"], expect=EXIT_USAGE)
    assert len(desk.json("dead-letters", "list")) == 1, "no means no"
    assert desk.json("dead-letters", "drop", row["id"], "--yes") == {"dropped": 1}
    assert desk.json("dead-letters", "list") == []
    (dropped,) = desk.json("dead-letters", "list", "--state", "dropped")
    assert (dropped["id"], dropped["bytes"], dropped["reason"]) == (row["id"], 0, "not_json")
    assert "secret" not in desk("dead-letters", "show", row["id"])
    desk("dead-letters", "replay", row["id"], expect=EXIT_USAGE)
    assert sum(desk.json("ledger")["dead_letters"].values()) == 1, "and accounted for as before"


def test_nothing_is_sent_or_dropped_without_a_choice_and_unknown_ids_are_told(desk: Desk) -> None:
    append(desk.queue, [b"{"])
    desk("consume", "--until-idle")
    assert "--all" in desk("dead-letters", "replay", expect=EXIT_USAGE)
    assert "--all" in desk("dead-letters", "drop", "--yes", expect=EXIT_USAGE)
    assert "no dead letter 0.77.00000000" in desk("dead-letters", "show", "0.77.00000000", expect=EXIT_USAGE)
    assert "such as 0.1234.9f86d081" in desk("dead-letters", "show", "soup", expect=EXIT_USAGE)
    for verb in (["list"], ["replay"], ["drop", "--yes"]):
        assert "existing reasons: not_json" in desk("dead-letters", *verb, "--reason", "nonsense")
    assert desk.json("dead-letters", "replay", "--all")["replayed"] == 1
    assert "existing reasons" not in desk("dead-letters", "list", "--reason", "not_json"), "sent again, and known"


def test_restarts_do_not_let_a_topic_drain_into_the_dead_letters(desk: Desk) -> None:
    """A supervisor starts it ten times after a bad deploy: what got through at first is all there is."""
    append(desk.queue, [*[encode(make_trace(n)) for n in range(50)], *[b"not ours"] * 3_000])
    for _ in range(10):
        assert "cannot be read" in desk("consume", "--until-idle", expect=EXIT_FAILED)
    assert len(desk.json("dead-letters", "list", "-n", "10000")) <= 200
    assert (committed(desk.queue, "tracejudge") or 0) <= 250
    desk("dead-letters", "drop", "--all", "--yes")
    assert "cannot be read" in desk("consume", "--until-idle", expect=EXIT_FAILED), "a drop gives it one more chance"
    assert len(desk.json("dead-letters", "list", "-n", "10000")) <= 200


@pytest.mark.parametrize(
    ("value", "limit", "shown"),
    [
        (b"plain", 10, "plain"),
        ("café €".encode(), 100, "café €"),
        ("€€".encode(), 4, "€"),
        (b"\x00\x1b\x7f\n", 10, "\\x00\\x1b\\x7f\\x0a"),
        (b"ok\xff", 10, "ok\\xff"),
        ("\u202e\U000e0041".encode(), 10, "\\u202e\\U000e0041"),
    ],
)
def test_bytes_are_shown_so_that_no_terminal_obeys_them(value: bytes, limit: int, shown: str) -> None:
    assert preview(value, limit=limit) == shown


def test_lines_of_a_file_are_told_what_to_do_instead_of_a_replay(desk: Desk) -> None:
    (desk.queue.parent / "log.jsonl").write_text("{\n[]\n")
    desk("ingest", "log.jsonl", "--app", "shop", expect=EXIT_FAILED)
    said = desk("dead-letters", "replay", "--all", expect=EXIT_FAILED)
    assert "2 skipped" in said
    assert "of file:log.jsonl: fix [intake.mapping] or the lines, `tracejudge ingest log.jsonl` again" in said
    assert "`tracejudge dead-letters drop --source file:log.jsonl`" in said
    assert "2 dead letters dropped" in desk("dead-letters", "drop", "--source", "file:log.jsonl", "--yes")


def _no(*_args: object, **_kwargs: object) -> None:
    import click

    raise click.Abort
