"""`tracejudge replay` on real parts: killed and gone on with, capped, sampled, and from files."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.judge_reply import JudgeRequest, Reply
from tests.support.judge_server import JudgeServer
from tests.support.panels import llm_spec, make_panel
from tests.support.workplace import Workplace
from tracejudge.judging import RunCaps
from tracejudge.replay import OpenRun, Selection, StoreSource, open_run, replay
from tracejudge.scores import LIVE_RUN
from tracejudge.store import RegisteredJudge, ScoreFilter, Store, StoredTrace, TraceFilter, open_store
from tracejudge.testing import ManualClock, make_trace
from tracejudge.testing.builders import START
from tracejudge.testing.judges import ScriptedJudge
from tracejudge_consumer.terminal.exit_status import EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_UNDECIDED, EXIT_USAGE

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

YES = Reply('{"unsupported": [], "verdict": "YES"}', usage=(100, 10))
TRACES = 450
SLOTS = 8


class UpTo:
    """A judge that answers about the traces below a number, and hangs at the others."""

    def __init__(self) -> None:
        self.limit = TRACES
        self.hung: set[int] = set()

    def __call__(self, request: JudgeRequest) -> Reply:
        if (number := number_of(request)) < self.limit:
            return YES
        self.hung.add(number)
        return Reply(YES.content, hang=True)


def settled_in(store: Store) -> set[int]:
    found = store.scores.stream(ScoreFilter(run_id="try-1"))
    return {int(score.trace_id.removeprefix("t-")) for page in found for score in page}


def number_of(request: JudgeRequest) -> int:
    found = re.search(r"plan (\d+)", request.prompt)
    assert found is not None
    return int(found[1])


@pytest.fixture
def judge() -> UpTo:
    return UpTo()


@pytest.fixture
def server(judge: UpTo) -> Iterator[JudgeServer]:
    with JudgeServer(judge) as running:
        yield running


@pytest.fixture
def at(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    store_url: str,
    server: JudgeServer,
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    settings = f"""\
queue = "sqlite:///queue.db"
store = "{store_url}"

[cache]
enabled = false

[[judges]]
name = "faithfulness"
kind = "faithfulness"
base_url = "{server.base_url}"
model = "judge"
concurrency = {SLOTS}
max_calls_per_h = 100000
usd_per_million_input_tokens = 10.0
usd_per_million_output_tokens = 10.0

[[judges]]
name = "lexical"
kind = "lexical"
"""
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    with open_store(store_url) as store:
        store.traces.insert(
            [
                StoredTrace(
                    trace=make_trace(number, tags={"tier": "gold" if number % 10 == 0 else "plain"}),
                    ingested_at=START + timedelta(hours=1),
                )
                for number in range(TRACES)
            ]
        )
    return Workplace(tmp_path, capsys, settings)


def test_a_replay_killed_three_times_ends_complete_and_buys_no_settled_verdict_twice(
    at: Workplace, judge: UpTo, server: JudgeServer, store: Store
) -> None:
    command = [sys.executable, "-m", "tracejudge_consumer.cli", "replay", "--judge", "faithfulness", "--run", "try-1"]
    lives: list[tuple[int, set[int]]] = []
    for limit in (120, 230, 410):
        judge.limit = limit
        judge.hung.clear()
        with subprocess.Popen(command, cwd=at.folder, stderr=subprocess.DEVNULL) as process:
            try:
                # Some calls hang: most of what could be answered was.
                server.wait_for(lambda _: len(judge.hung) >= SLOTS // 2, timeout_s=90.0)
                before = len(lives[-1][1]) if lives else 0
                while len(settled := settled_in(store)) <= before:  # the calls that hang keep it where it is
                    assert process.poll() is None
            finally:
                process.kill()
        server.wait_for(lambda stats: stats.in_flight == 0, timeout_s=60.0)
        lives.append((server.stats.calls, settled))
    judge.limit = TRACES

    report = at.json("replay", "--judge", "faithfulness", "--run", "try-1")
    assert report["complete"] is True
    assert (report["traces"], report["passed"] + report["already_settled"]) == (TRACES, TRACES)
    assert store.scores.count(ScoreFilter(run_id="try-1", outcome="passed")) == TRACES
    asked = [number_of(request) for request in server.requests]
    for calls, settled in lives:
        assert settled.isdisjoint(asked[calls:])
    manifest = store.runs.get("try-1")
    assert manifest is not None
    assert manifest.finished_at is not None
    assert manifest.manifest["totals"]["passed"] == TRACES
    assert len(manifest.manifest["attempts"]) == 4
    assert store.scores.count(ScoreFilter(run_id=LIVE_RUN)) == 0


def test_a_cap_of_money_holds_over_all_attempts_and_leaves_a_run_to_go_on_with(
    at: Workplace, server: JudgeServer, store: Store
) -> None:
    each = 110 * 10.0 / 1_000_000
    capped = ("replay", "--judge", "faithfulness", "--run", "capped", "--max-usd")
    first = at.json(*capped, str(20 * each), expect=EXIT_UNDECIDED)
    assert first["decisions"]["over_budget"] > 0
    assert 0 < store.calls.of_run("capped").usd <= 20 * each + 1e-9
    again = at.json(*capped, str(20 * each), expect=EXIT_UNDECIDED)
    assert store.calls.of_run("capped").usd <= 20 * each + 1e-9
    assert not again["complete"]
    for told in (first, again):
        known = told["already_settled"] + told["passed"] + told["failed"] + told["invalid"]
        assert told["traces"] == known + sum(told["decisions"].values())
        assert told["traces"] + told["not_reached"] == TRACES
    more = at.json(*capped, str(2 * TRACES * each))
    assert more["complete"]
    assert server.stats.calls == TRACES  # whatever the number of attempts
    assert "already" in at(*capped, "1")


def test_a_plan_takes_the_tokens_of_the_judge_s_own_calls_where_there_are_some(at: Workplace) -> None:
    asked = ("replay", "--judge", "faithfulness", "--run")
    (before,) = at.json(*asked, "plan-1", "--dry-run")["plan"]
    assert before["token_calls"] == 0
    assert "tokens: estimated from the texts, assuming 80 per reply" in at(*asked, "plan-1", "--dry-run")
    spent = at.json(*asked, "plan-1", "--max-usd", "5")
    (after,) = at.json(*asked, "plan-2", "--dry-run")["plan"]
    assert after["token_calls"] == TRACES
    assert after["cost"]["usd"] == pytest.approx(spent["cost_usd"])
    assert after["cost"]["usd"] < before["cost"]["usd"]
    assert f"tokens: as in {TRACES} measured calls of this judge" in at(*asked, "plan-2", "--dry-run")


def test_a_sample_is_the_same_for_a_seed_and_exact_in_number(at: Workplace, store: Store) -> None:
    def ids(run: str) -> set[str]:
        return {score.trace_id for page in store.scores.stream(ScoreFilter(run_id=run)) for score in page}

    assert at.json("replay", "--judge", "lexical", "--run", "a", "--sample", "60", "--seed", "7")["traces"] == 60
    at.json("replay", "--judge", "lexical", "--run", "b", "--sample", "60", "--seed", "7")
    at.json("replay", "--judge", "lexical", "--run", "c", "--sample", "60", "--seed", "8")
    at.json("replay", "--judge", "lexical", "--run", "d", "--sample", "90", "--seed", "7")
    assert len(ids("a")) == 60
    assert ids("a") == ids("b") < ids("d")
    assert ids("a") != ids("c")
    assert at.json("replay", "--judge", "lexical", "--run", "e", "--sample", "9999")["traces"] == TRACES


def test_the_next_step_compares_with_a_live_judge_of_the_same_or_with_none(at: Workplace, store: Store) -> None:
    at("replay", "--judge", "lexical", "--run", "first")
    scores = [score for page in store.scores.stream(ScoreFilter(run_id="first")) for score in page]
    store.scores.insert([replace(score, run_id=LIVE_RUN) for score in scores])
    store.judges.register(
        [
            RegisteredJudge(
                judge_name="lexical", judge_id=scores[0].judge_id, spec={"name": "lexical", "kind": "lexical"},
                heuristic=True, registered_at=START,
            )
        ]
    )  # fmt: skip
    said = at("replay", "--judge", "faithfulness", "--run", "try-1")
    assert "next: tracejudge compare live:lexical try-1:faithfulness" in said
    (at.folder / "relevant.toml").write_text(
        '[[judges]]\nname = "relevant"\nkind = "lexical"\nmeasures = "relevancy"\n'
    )
    said = at("replay", "--judge", "relevant.toml", "--run", "try-2")
    assert "next: tracejudge rates --run try-2 --judge relevant --since 30d" in said
    assert "compare" not in said


def test_where_narrows_by_any_field_and_a_run_keeps_what_it_asked(at: Workplace, server: JudgeServer) -> None:
    gold = at.json("replay", "--judge", "lexical", "--run", "gold", "--where", "tags.tier=gold")
    assert gold["traces"] == TRACES // 10
    again = at("replay", "--judge", "lexical", "--run", "gold", "--where", "tags.tier=gold")
    assert "verdicts it already has are not bought again" in again
    at("report", "--run", "gold", "--html", "gold.html")
    assert "tags.tier gold" in (at.folder / "gold.html").read_text(encoding="utf-8"), "a part of the traffic, and which"
    plan = at.json("replay", "--judge", "faithfulness", "--run", "x", "--where", "version=v1", "--dry-run")
    (judge,) = plan["plan"]
    assert (plan["traces"], judge["cost"]["calls"], judge["measured_calls"]) == (TRACES, TRACES, 0)
    assert [one["workers"] for one in judge["expected"]] == [8, 4, 16, 32]
    assert server.stats.calls == 0
    at("replay", "--judge", "lexical", "--run", "y", "--where", "colour=red", expect=EXIT_USAGE)
    refused = at("replay", "--judge", "lexical", "--run", "gold", "--where", "tags.tier=plain", expect=EXIT_FAILED)
    assert "another selection" in refused
    moved = ("replay", "--judge", "lexical", "--run", "gold", "--where", "tags.tier=gold", "--since", "2020-01-01Z")
    assert "goes back to the first trace" in at(*moved, expect=EXIT_FAILED)
    refused = at("replay", "--judge", "faithfulness", "--run", "gold", "--where", "tags.tier=gold", expect=EXIT_FAILED)
    assert "judged by lexical@" in refused


def test_files_are_replayed_as_the_store_is(at: Workplace, store: Store) -> None:
    pytest.importorskip("pyarrow", reason="reading Parquet needs the extra 'parquet'")
    at("replay", "--judge", "lexical", "--run", "of-store")
    at("export", "--out", "all.jsonl")
    at("export", "--format", "parquet", "--out", "all")
    (parquet,) = (at.folder / "all").glob("*.parquet")
    assert at.json("replay", "--judge", "lexical", "--run", "of-lines", "--from", "all.jsonl")["traces"] == TRACES
    assert at.json("replay", "--judge", "lexical", "--run", "of-parquet", "--from", str(parquet))["traces"] == TRACES
    runs = [list(store.scores.pairs("of-store", run, judge_a="lexical", judge_b="lexical")) for run in
            ("of-lines", "of-parquet")]  # fmt: skip
    for pairs in runs:
        assert len(pairs) == TRACES
        assert all(pair.a.score == pair.b.score and pair.a.event_time == pair.b.event_time for pair in pairs)
    sampled = at.json("replay", "--judge", "lexical", "--run", "some", "--from", "all.jsonl", "--sample", "50")
    assert sampled["traces"] == 50
    bad = at.folder / "no.parquet"
    bad.write_bytes(json.dumps({"query": "q"}).encode())
    assert "not a Parquet file" in at(
        "replay", "--judge", "lexical", "--run", "z", "--from", str(bad), expect=EXIT_FAILED
    )


async def test_an_interrupted_replay_stores_what_was_answered_by_then(store: Store) -> None:
    clock = ManualClock()
    traces = [make_trace(number) for number in range(40)]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=START) for trace in traces])
    answered = asyncio.Event()
    asked = 0

    def reply(prompt: str) -> str | BaseException:
        nonlocal asked
        asked += 1
        if asked == 20:
            answered.set()
        return YES.content

    spec, where = llm_spec(concurrency=1), TraceFilter()
    selection = Selection(where=where)

    def begin() -> OpenRun:
        return open_run(store, "cut", specs=[spec], selection=selection, caps=RunCaps(), now=clock.now())

    panel = make_panel(spec, lambda _: ScriptedJudge(reply), clock=clock)
    work = asyncio.create_task(
        replay(store, panel, specs=[spec], source=StoreSource(store, where), run=begin(), clock=clock)
    )
    await answered.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    settled = store.scores.count(ScoreFilter(run_id="cut"))
    assert 19 <= settled <= asked
    left = await replay(store, panel, specs=[spec], source=StoreSource(store, where), run=begin(), clock=clock)
    assert (left.complete, left.already_settled, left.passed) == (True, settled, 40 - settled)
    assert asked <= 41  # the one that was under way


def test_a_judge_of_whom_nothing_can_be_read_is_no_success(at: Workplace, server: JudgeServer) -> None:
    server.script = lambda request: Reply("as an assistant I would rather not say", usage=(100, 10))
    said = at("replay", "--judge", "faithfulness", "--run", "mute", "--max-calls", "5000", expect=EXIT_UNAVAILABLE)
    assert f"0 passed, 0 failed, {TRACES} invalid" in said
    assert "no readable verdict: `tracejudge judges check`" in said
    assert "next: tracejudge compare" not in said
