"""One answer, as a person goes after it: find, show, judge, label; and out with it again: export, forget, stats."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.judge_script import verdict_by_regex
from tests.support.judge_server import JudgeServer
from tests.support.workplace import Workplace
from tracejudge.store import Store, open_store
from tracejudge_consumer.terminal.exit_status import EXIT_INTERRUPTED, EXIT_USAGE

DAY = ("--since", "2026-01-01T00:00:00Z", "--until", "2026-01-02T00:00:00Z")

SETTINGS = """\
queue = "sqlite:///queue.db"
store = "{store}"

[[judges]]
name = "lexical"
kind = "lexical"

[[judges]]
name = "faithfulness"
kind = "faithfulness"
base_url = "{judge}"
model = "judge"
api_key_env = "TEST_JUDGE_KEY"
max_calls_per_h = 10000

[sampling.judges]
faithfulness = 0.0

[retention]
texts_d = 60
"""


def line(number: int, **fields: Any) -> str:
    value = {
        "trace_id": f"t-{number}", "app": "shop", "event_time": f"2026-01-01T12:00:{number:02d}Z",
        "query": f"How long may I return item {number}?", "response": f"Item {number} may be returned for 30 days.",
        "source_nodes": [{"node_id": "n", "text": "Items may be returned for 30 days.", "score": 0.9}],
        "user_id": f"u{number % 4}", **fields,
    }  # fmt: skip
    return json.dumps(value, ensure_ascii=False)


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(verdict_by_regex("return", found="YES", otherwise="NO"), api_key="k") as server:
        yield server


@pytest.fixture
def at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store_url: str,
    judge: JudgeServer,
) -> Workplace:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEST_JUDGE_KEY", "k")
    (tmp_path / "tracejudge.toml").write_text(SETTINGS.format(store=store_url, judge=judge.base_url), encoding="utf-8")
    lines = [line(number) for number in range(20)]
    lines[7] = line(7, response="Penguins live in the south, 退款政策 as well.")
    (tmp_path / "traces.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    workplace = Workplace(tmp_path, capsys, "")
    workplace("ingest", "traces.jsonl")
    workplace("consume", "--until-idle")
    return workplace


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [one["trace"]["trace_id"] for one in found]


def test_from_a_users_complaint_to_a_label(at: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ids(at.json("find", "--user", "u3")) == ["t-19", "t-15", "t-11", "t-7", "t-3"]
    assert ids(at.json("find", "PENGUINS", "south")) == ["t-7"]
    assert ids(at.json("find", "--contains", "退款")) == ["t-7"]
    assert ids(at.json("find", "item", "5", "--until", "2026-01-01T12:00:06Z")) == ["t-5"]
    assert ids(at.json("find", "--outcome", "failed")) == ["t-7"]
    assert ids(at.json("find", "--version", "v9")) == []
    assert "only whole words match" in at("find", "unicorn")
    nobody = at("find", "--user", "nobody")
    assert "the full pseudonym, as logged" in nobody
    assert "words" not in nobody
    at("find", "!!!", expect=EXIT_USAGE)

    before = at.json("rates", *DAY, "--step", "all")["lines"]
    (verdict,) = at.json("judge", "t-7", "--judge", "faithfulness")["scores"]
    assert (verdict["run_id"], verdict["revision"]) == ("manual", 0)
    (again,) = at.json("judge", "t-7", "--judge", "faithfulness")["scores"]
    assert again["revision"] == 1
    shown = at.json("show", "t-7")
    assert [score["run_id"] for score in shown["scores"] if score["judge_name"] == "faithfulness"] == ["manual"]
    assert at.json("rates", *DAY, "--step", "all")["lines"] == before, "a manual verdict enters no rate"
    at("judge", "never seen", "--judge", "lexical", expect=EXIT_USAGE)

    at("label", "t-7", "--criterion", "faithfulness", "--no", "--note", "no word of returns", "--by", "anna")
    page = at("show", "t-7")
    assert "label faithfulness = 0  (anna): no word of returns" in page
    assert ["user", "u3"] in [row.split() for row in page.splitlines()]
    assert "label     faithfulness = 0  (anna) no word of returns" in at("worst", "--since", "3650d")
    at("label", "t-7", "--criterion", "faithfulness", expect=EXIT_USAGE)
    at("label", "never seen", "--criterion", "faithfulness", "--yes", expect=EXIT_USAGE)


def test_a_verdict_about_another_content_than_is_stored_says_so(at: Workplace) -> None:
    """As after a mapping that found no passages and was corrected: the id comes again, with its texts now."""
    (at.folder / "without.jsonl").write_text(line(40, source_nodes=[{"node_id": "n"}]) + "\n", encoding="utf-8")
    (at.folder / "with.jsonl").write_text(line(40) + "\n", encoding="utf-8")
    for file in ("without.jsonl", "with.jsonl"):
        at("ingest", file)
        at("consume", "--until-idle")
    assert "for different content than shown above: this id was sent again" in at("show", "t-40")
    assert "different content" not in at("show", "t-7")


def test_of_one_id_in_two_apps_each_verdict_stands_below_its_own_trace(at: Workplace) -> None:
    (at.folder / "desk.jsonl").write_text(line(1, app="desk", response="Penguins live in the south."), encoding="utf-8")
    at("ingest", "desk.jsonl")
    at("consume", "--until-idle")
    desk, shop = sorted(at("show", "t-1").split("t-1  ")[1:])
    assert desk.startswith("desk / production")
    assert "Penguins" in desk
    assert "lexical (heuristic): failed" in desk
    assert shop.startswith("shop / production")
    assert "lexical (heuristic): passed" in shop
    assert "failed" not in shop


def test_a_judge_by_hand_keeps_within_the_cap_of_all_judges(at: Workplace, judge: JudgeServer) -> None:
    with (at.folder / "tracejudge.toml").open("a", encoding="utf-8") as settings:
        settings.write("\n[budget]\nmax_calls_per_h = 0\n")
    told = at.json("judge", "t-7", "--judge", "faithfulness")
    assert told["scores"] == []
    assert [row["decision"] for row in told["ledger"]] == ["over_budget"]
    assert judge.stats.calls == 0


def test_a_queue_is_walked_in_the_terminal(at: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(text) + "\n"))

    walk = ("label", "--criterion", "faithfulness", "--by", "ben", "--since", "3650d", "--queue")
    answers("n")
    (given,) = at.json(*walk, "worst")
    assert (given["trace_id"], given["value"], given["source"]) == ("t-7", 0.0, "ben")
    assert at.json(*walk, "worst") == [], "what one has labelled does not come again"
    answers("ysynq")
    first = at.json(*walk, "random")
    assert [one["value"] for one in first] == [1.0, 1.0, 0.0]
    answers("q")
    assert at.json(*walk, "random") == []
    assert len({one["trace_id"] for one in first} | {"t-7"}) == 4


def test_traces_leave_as_lines_that_come_in_again_and_as_parquet(at: Workplace) -> None:
    told = at.json("export", "--out", "out.jsonl")
    assert (told["written"], told["unit"]) == (20, "traces")
    lines = (at.folder / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(one)["trace_id"] for one in lines] == [f"t-{number}" for number in range(20)]
    (report,) = at.json("ingest", "out.jsonl")
    assert (report["sent"], report["dead_letters"]) == (20, 0)
    failed = at("export", "--outcome", "failed")
    assert json.loads(failed.splitlines()[0])["trace_id"] == "t-7"
    at.json("export", "scores", "--out", "scores.jsonl", "--outcome", "passed")
    scores = [json.loads(one) for one in (at.folder / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(scores) == 19
    assert {score["outcome"] for score in scores} == {"passed"}
    assert at.json("export", "--format", "parquet", "--out", "folder", "--app", "shop")["written"] == 1
    (file,) = (at.folder / "folder").iterdir()
    content = file.read_bytes()
    assert content[:4] == content[-4:] == b"PAR1"
    at("export", "--format", "parquet", "--out", "folder", expect=EXIT_USAGE)
    at("export", "--format", "parquet", expect=EXIT_USAGE)


def test_stats_tell_sizes_and_days(at: Workplace) -> None:
    told = at.json("stats")
    sizes = {one["name"]: one for one in told["tables"]}
    assert sizes["traces"]["rows"] == 20
    assert list(told["rows_by_day"].values())[-1]["scores"] == 20
    assert told["bytes_per_day"] is None
    assert "growth: unknown until the first whole day" in at("stats")


def test_after_a_replay_of_the_queue_from_its_beginning_nobody_who_was_forgotten_has_come_back(
    at: Workplace, store_url: str
) -> None:
    at("label", "t-3", "--criterion", "faithfulness", "--yes")
    told = at.json("forget", "--user-id", "u3", "--reason", "asked for it", "--yes")
    assert told["traces"] == 5
    assert any("queue" in one for one in told["out_of_reach"])
    ledger = at.json("ledger", "--since", "3650d")["lines"]

    with sqlite3.connect(at.folder / "queue.db") as queue:  # every consumer group has read nothing
        queue.execute("DELETE FROM reader_groups")
    report = at.json("consume", "--until-idle")
    assert report["ledger"]["forgotten"] == 10, "five traces, two judges"
    with open_store(store_url) as store:
        columns = store.query(
            "SELECT table, name FROM system.columns WHERE database = currentDatabase() AND type LIKE '%String%'"
        )
        for text in ("t-3", "u3", "Penguins"):
            for table, name in columns:
                where = f"has(splitByRegexp('[^0-9A-Za-z_-]+', toString(`{name}`)), {{text:String}})"
                found = store.query(f"SELECT count() FROM `{table}` WHERE {where}", {"text": text})
                assert found == [(0,)], (text, table, name)
    assert ids(at.json("find", "--user", "u3")) == []
    at("show", "t-7", expect=EXIT_USAGE)
    after = at.json("ledger", "--since", "3650d")["lines"]
    assert [(one["judge_name"], one["traces"], one["unaccounted"]) for one in after] == [
        (one["judge_name"], one["traces"], one["unaccounted"]) for one in ledger
    ]
    assert {one["judge_name"]: one["decisions"]["forgotten"] for one in after} == {"faithfulness": 5, "lexical": 5}
    at("forget", "--yes", expect=EXIT_USAGE)


@pytest.mark.parametrize("typed", ["", "n\n"])
def test_where_nobody_can_be_asked_the_option_that_asks_nobody_is_named(
    at: Workplace, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    told = at("forget", "--trace-id", "t-7", expect=EXIT_INTERRUPTED if typed else EXIT_USAGE)
    assert ("--yes" in told) is not bool(typed)
    assert "t-7" in at("show", "t-7"), "nothing goes without a yes"


@pytest.mark.parametrize(
    "command",
    [
        "rates --run nope", "rates --run nope --json", "worst --run nope", "ledger --run nope", "report --run nope",
        "export scores --out rows.jsonl --run nope", "cost --run nope", "gate --run nope --thresholds gate.toml",
        "compare live nope", "compare v1 v2 --cases --run nope", "judges adopt nope",
    ],
)  # fmt: skip
def test_every_verb_says_alike_that_a_run_is_not_there(at: Workplace, command: str) -> None:
    (at.folder / "gate.toml").write_text('[[thresholds]]\njudge = "lexical"\nminimum = 0.5\n', encoding="utf-8")
    told = at(*command.split(), expect=EXIT_USAGE)
    assert told.startswith("error: there is no run 'nope'; ")
    assert "`tracejudge replay --run NAME` creates one" in told
    assert not (at.folder / "rows.jsonl").exists()


def test_migrate_sets_how_long_things_are_kept(at: Workplace, store_url: str) -> None:
    with open_store(store_url) as store:
        (created,) = store.query(
            "SELECT create_table_query FROM system.tables WHERE name = 'traces' AND database = currentDatabase()"
        )
    assert "`query` String CODEC(ZSTD(3)) TTL toDateTime(stored_at) + toIntervalDay(60)" in created[0]
    settings = (at.folder / "tracejudge.toml").read_text(encoding="utf-8").replace("texts_d = 60", "texts_d = 30")
    (at.folder / "tracejudge.toml").write_text(settings, encoding="utf-8")
    assert "traces.query: 60 -> 30 days" in at("migrate")
    assert "30 days" not in at("migrate")


def test_texts_past_their_retention_are_said_to_be_gone_and_not_that_nothing_was_answered(
    at: Workplace, store: Store
) -> None:
    store.command(
        "ALTER TABLE traces UPDATE stored_at = stored_at - INTERVAL 61 DAY WHERE trace_id = 't-3' "
        "SETTINGS mutations_sync = 1"
    )
    store.optimize("traces")
    page = at("show", "t-3")
    assert "question\n  (past its retention)\nanswer\n  (past its retention)\n" in page
    assert "(empty)" not in page
    assert "(none)" not in page
