"""The commands on real parts: SQLite log, embedded store, judge and webhook over HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.support.judge_script import verdict_by_regex
from tests.support.judge_server import JudgeServer
from tests.support.webhook import Receiver
from tests.support.workplace import Workplace
from tracejudge_consumer.terminal.exit_status import EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_UNDECIDED, EXIT_USAGE

DATA = Path(__file__).parents[1] / "data"
KEY_ENV = "TEST_JUDGE_KEY"


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(verdict_by_regex("ibmcloud|IBM", found="YES", otherwise="NO"), api_key="k") as server:
        yield server


@pytest.fixture
def at(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    store_url: str,
    judge: JudgeServer,
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEY_ENV, "k")
    settings = f"""\
queue = "sqlite:///queue.db"
store = "{store_url}"

[[judges]]
name = "lexical"
kind = "lexical"

[[judges]]
name = "faithfulness"
kind = "faithfulness"
base_url = "{judge.base_url}"
model = "judge"
api_key_env = "{KEY_ENV}"
max_calls_per_h = 10000
usd_per_million_input_tokens = 1.0
usd_per_million_output_tokens = 1.0

[sampling.judges]
faithfulness = 0.5

[alert_loop]
settle_s = 0

[[rules]]
name = "lexical-minimum"
judge = "lexical"
minimum = 0.99
"""
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    return Workplace(tmp_path, capsys, settings)


def lines_of(name: str) -> list[str]:
    import gzip

    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return lines.read().splitlines()


def test_a_file_with_bad_lines_among_good_ones_is_accounted_for_to_the_last_line(at: Workplace) -> None:
    good = [json.loads(line) for line in lines_of("mtrag_sample.jsonl.gz")][:20]
    big = {**good[0], "trace_id": "big", "source_nodes": [{"node_id": "n", "text": "ü" * 2_000_000, "score": 0.5}]}
    odd = {**good[1], "trace_id": "odd", "query": "\u202eq\u0007 \U0001f642 e\u0301 \ufeff", "response": "𝔄 ثم 漢字 ok"}
    empty = {**good[2], "trace_id": "empty", "response": ""}
    bare = {**good[3], "trace_id": "bare", "source_nodes": []}
    rows = [json.dumps(row, ensure_ascii=False) for row in [*good, big, odd, empty, bare]]
    rows.insert(7, '{"trace_id": "broken", ')
    (at.folder / "mixed.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")

    (report,) = at.json("ingest", "mixed.jsonl")
    assert (report["lines"], report["sent"], report["dead_letters"], report["truncated"]) == (25, 24, 1, 1)
    assert "broken" not in json.dumps(report["reasons"]) or "not_json" in json.dumps(report["reasons"])
    consumed = at.json("consume", "--until-idle")
    assert consumed["traces"] == 24

    ledger = at.json("ledger", "--since", "3650d")
    for line in ledger["lines"]:
        decided = line["passed"] + line["failed"] + line["invalid"] + sum(line["decisions"].values())
        assert (line["traces"], decided, line["unaccounted"]) == (24, 24, 0)
    (lexical,) = [line for line in ledger["lines"] if line["judge_name"] == "lexical"]
    assert lexical["decisions"]["not_applicable"] >= 2  # the empty answer, and the one without passages
    assert sum(ledger["dead_letters"].values()) == 1

    # Ingested and consumed a second time, nothing changes and no verdict is bought.
    at.json("ingest", "mixed.jsonl")
    again = at.json("consume", "--until-idle")
    assert (again["judge_calls"], again["passed"], again["failed"]) == (0, 0, 0)
    assert at.json("ledger", "--since", "3650d")["lines"] == ledger["lines"]
    assert at.json("ledger", "--since", "3650d")["dead_letters"] == ledger["dead_letters"]

    shown = at("show", "big")
    assert "truncated" in shown
    assert "\u202e" not in at("show", "odd")
    assert "not judged, not_applicable" in at("show", "bare")
    at("show", "no-such-trace", expect=EXIT_USAGE)


def test_looking_replaying_and_comparing(at: Workplace, judge: JudgeServer) -> None:
    (at.folder / "answers.jsonl").write_text("\n".join(lines_of("mtrag_sample.jsonl.gz")), encoding="utf-8")
    (at.folder / "none.jsonl").write_text('{"no": "query"}\n', encoding="utf-8")
    assert "nothing was sent: `tracejudge dead-letters`" in at("ingest", "none.jsonl", expect=EXIT_FAILED)
    (at.folder / "empty.jsonl").write_text("", encoding="utf-8")
    assert "nothing was sent: it contains no trace" in at("ingest", "empty.jsonl", expect=EXIT_FAILED)
    at("ingest", "answers.jsonl")
    at("consume", "--until-idle")

    rates = at.json("rates", "--since", "3650d", "--step", "all")
    by_judge = {line["judge_name"]: line for line in rates["lines"]}
    assert by_judge["lexical"]["heuristic"] is True
    assert by_judge["faithfulness"]["heuristic"] is False
    for line in by_judge.values():
        assert line["rate"]["low"] <= line["rate"]["estimate"] <= line["rate"]["high"]
    assert "lexical (heuristic)" in at("rates", "--since", "3650d", "--step", "all", "--by", "app")
    assert "min-effective" in at("rates", "--min-effective", "-5", expect=EXIT_USAGE)
    joined = " ".join(at("rates", "--by", "tags.tenant,version", expect=EXIT_USAGE).split())
    assert "write --by tags.tenant --by version" in joined
    assert "there is no app 'nobody'" in at("rates", "--since", "3650d", "--app", "nobody", expect=EXIT_USAGE)
    assert "reason" in at("worst", "--since", "3650d", "-n", "3")
    assert at.json("worst", "--since", "3650d", "-n", "3", "--judge", "lexical")
    assert "lexical (heuristic)" in at("tail", "--once", "--last", "1h")

    plan = at.json("replay", "--judge", "faithfulness", "--run", "try-1", "--dry-run")
    before = judge.stats.calls
    capping = ("replay", "--judge", "faithfulness", "--run", "try-1", "--max-calls", "3")
    capped = at.json(*capping, expect=EXIT_UNDECIDED)
    settled = capped["passed"] + capped["failed"]
    # What the live judge said about the same content is not paid for again.
    assert (capped["calls"], settled) == (3, 3 + before)
    assert capped["decisions"]["over_budget"] > 0
    # A higher cap goes on where it ended, and buys nothing twice.
    replayed = at.json("replay", "--judge", "faithfulness", "--run", "try-1")
    assert (replayed["traces"], replayed["already_settled"]) == (plan["traces"], settled)
    replayed["passed"] += capped["passed"]
    replayed["failed"] += capped["failed"]
    assert judge.stats.calls == replayed["calls"] + 3 + before == replayed["passed"] + replayed["failed"]
    again = at.json("replay", "--judge", "faithfulness", "--run", "try-1")
    assert (again["calls"], again["already_settled"]) == (0, replayed["passed"] + replayed["failed"])
    # The live rates are as they were: a replay never touches them.
    after = at.json("rates", "--since", "3650d", "--step", "all")
    assert {line["judge_name"]: line["rate"] for line in after["lines"]} == {
        name: line["rate"] for name, line in by_judge.items()
    }

    compared = at.json("compare", "live:lexical", "try-1")["comparison"]
    counts = compared["agreement"]["counts"]
    assert sum(counts.values()) == replayed["passed"] + replayed["failed"]
    assert compared["agreement"]["same"]["passed"] == counts["both_passed"] + counts["both_failed"]
    assert "same verdict" in at("compare", "live:lexical", "try-1:faithfulness")
    at("compare", "live:lexical", "nothing", expect=EXIT_USAGE)
    at("replay", "--judge", "faithfulness", "--run", "live", expect=EXIT_USAGE)


def test_traces_that_had_no_chance_are_accounted_for_too(at: Workplace) -> None:
    rates = at.settings.replace("faithfulness = 0.5", "faithfulness = 0.0")
    rule = '[[sampling.rules]]\nname = "no"\nwhen = { field = "trace_id", is = "line-0" }\nnever = true\n'
    (at.folder / "tracejudge.toml").write_text(rates + rule, encoding="utf-8")
    rows = [{"trace_id": f"line-{n}", "query": "q", "response": "an answer", "source_nodes": ["p"]} for n in range(10)]
    (at.folder / "ten.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    at("ingest", "ten.jsonl", "--app", "shop")
    consumed = at.json("consume", "--until-idle")
    assert consumed["dead_letters"] == {}
    lines = {line["judge_name"]: line for line in at.json("ledger")["lines"]}
    assert lines["faithfulness"]["decisions"] == {"sampled_out": 9, "filtered": 1}
    assert lines["lexical"]["decisions"]["filtered"] == 1
    assert [line["unaccounted"] for line in lines.values()] == [0, 0]


def test_a_round_straight_after_the_consumer_says_how_many_scores_rest(at: Workplace) -> None:
    rows = [json.loads(line) for line in lines_of("hagrid_unfaithful.jsonl.gz")][:20]
    text = "\n".join(json.dumps({**row, "app": "shop"}) for row in rows)
    (at.folder / "some.jsonl").write_text(text, encoding="utf-8")
    (at.folder / "tracejudge.toml").write_text(at.settings.replace("settle_s = 0", "settle_s = 3600"), encoding="utf-8")
    at("ingest", "some.jsonl")
    report = at.json("consume", "--until-idle")
    scores = report["passed"] + report["failed"] + report["invalid"]
    said = at("watch", "--once")
    assert "no series changed" in said
    assert f"{scores} scores are still settling and not evaluated yet: all of them count from" in said
    rest = at.json("watch", "--once")["resting"]
    assert rest["scores"] == scores
    assert rest["all_count_at"] > datetime.now(timezone.utc).isoformat()


def test_watch_tells_a_webhook_once(at: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as receiver:
        monkeypatch.setenv("TEST_HOOK_SECRET", "s")
        hook = (
            f'\n[[notifiers]]\ntype = "webhook"\nurl = "{receiver.url}"\n'
            'secret_env = "TEST_HOOK_SECRET"\nallow_private = true\n'
        )
        (at.folder / "tracejudge.toml").write_text(at.settings + hook, encoding="utf-8")
        rows = [json.loads(line) for line in lines_of("hagrid_unfaithful.jsonl.gz")]
        text = "\n".join(json.dumps({**row, "app": "shop"}) for row in rows)
        (at.folder / "bad.jsonl").write_text(text, encoding="utf-8")
        at("ingest", "bad.jsonl", "--event-time", "2026-01-31T00:00:00Z", "--event-step", "1m")
        at("consume", "--until-idle")
        assert "firing" in at("watch", "--once")
        assert "no series changed" in at("watch", "--once")
    (only,) = receiver.requests
    event = json.loads(only.body)
    assert (event["kind"], event["severity"], event["heuristic"]) == ("firing", "ticket", True)
    assert "X-Tracejudge-Signature" in only.headers
    # Ids, numbers and links, no texts.
    assert not any(row["query"] in only.body.decode() for row in rows)
    assert "firing" in at("alerts", "--since", "3650d")


def test_score_says_what_it_costs_and_stops_at_its_cap(at: Workplace, judge: JudgeServer) -> None:
    rows = [json.loads(line) for line in lines_of("hagrid_unfaithful.jsonl.gz")]
    hundred = [{**rows[number % len(rows)], "trace_id": f"s-{number}"} for number in range(100)]
    (at.folder / "hundred.jsonl").write_text("\n".join(map(json.dumps, hundred)), encoding="utf-8")
    free = at.json("score", "hundred.jsonl")
    assert free["judges"]["lexical"]["heuristic"] is True

    said = at(
        "score",
        "hundred.jsonl",
        "--judge",
        "faithfulness",
        "--max-calls",
        "40",
        "--output",
        "out.jsonl",
        expect=EXIT_UNDECIDED,
    )
    assert "100 calls" in said
    assert "stopped at --max-calls 40" in said
    assert judge.stats.calls == 40
    outcomes = [json.loads(line)["outcome"] for line in (at.folder / "out.jsonl").read_text().splitlines()]
    assert outcomes.count("over_budget") == 60

    (at.folder / "uncapped.toml").write_text(
        f'[[judges]]\nname = "f"\nkind = "faithfulness"\nbase_url = "{judge.base_url}"\nmodel = "judge"\n'
    )
    refused = at("score", "hundred.jsonl", "--judge", "uncapped.toml", expect=EXIT_USAGE)
    assert "max_calls_per_h" in refused
    assert "--max-calls" in refused
    assert judge.stats.calls == 40


def test_score_never_writes_over_its_input_and_a_file_without_traces_is_a_failure(at: Workplace) -> None:
    line = '{"query": "q", "response": "ten users", "source_nodes": ["The limit is ten users."]}\n'
    (at.folder / "self.jsonl").write_text(line, encoding="utf-8")
    assert "is the input itself" in at("score", "self.jsonl", "--output", "self.jsonl", expect=EXIT_USAGE)
    assert (at.folder / "self.jsonl").read_text() == line
    assert "--output" in at("score", "self.jsonl", "--output", "nowhere/x.jsonl", expect=EXIT_USAGE)
    assert at.json("score", "self.jsonl")["judges"]["lexical"]["passed"] == 1
    assert (at.folder / "self.jsonl.scores.jsonl").exists()
    (at.folder / "notes.md").write_text("# not a trace\n", encoding="utf-8")
    assert "contains no trace" in at("score", "notes.md", expect=EXIT_FAILED)
    (at.folder / "empty.jsonl").write_text("", encoding="utf-8")
    at("score", "empty.jsonl", expect=EXIT_UNDECIDED)


def test_a_judge_that_cannot_be_reached_is_no_success(at: Workplace) -> None:
    (at.folder / "one.jsonl").write_text('{"query": "q", "response": "r", "source_nodes": ["p"]}\n', encoding="utf-8")
    (at.folder / "dead.toml").write_text(
        '[[judges]]\nname = "f"\nkind = "faithfulness"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
        "max_attempts = 1\nmax_calls_per_h = 10\n"
    )
    said = at("score", "one.jsonl", "--judge", "dead.toml", expect=EXIT_UNAVAILABLE)
    assert "1 undecided: judge_down_unreachable" in said


def test_doctor_says_ok_or_fail_with_the_fix(at: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = at.json("doctor")
    assert {check["subject"] for check in checks if check["status"] != "ok"} <= {"queue"}, "none was made yet"
    tried = {check["subject"] for check in checks}
    assert {"queue", "store disk", "store", "store schema", "store grants", "clock"} <= tried
    monkeypatch.setenv(KEY_ENV, "wrong")
    said = at("doctor", expect=EXIT_FAILED)
    assert "refused the key" in said
    assert f"set a valid key in {KEY_ENV}" in said
    monkeypatch.delenv(KEY_ENV)
    assert f"export {KEY_ENV}" in at("doctor", expect=EXIT_FAILED)
