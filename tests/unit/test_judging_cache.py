"""One call for each distinct content: in flight, in memory and in the store, and never for what measures a judge."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from tests.support.panels import NO, YES, Sleeps, lexical_spec, llm_spec, make_task, make_tasks
from tracejudge.errors import StoreUnavailable
from tracejudge.judging import JudgeSpec, JudgeTask, NothingSpent, Panel, content_hash
from tracejudge.judging.cache import CacheKey, Memory, Verdict, VerdictCache
from tracejudge.judging.calls.failures import CallError
from tracejudge.judging.replies.judgement import Judgement
from tracejudge.scores import Outcome
from tracejudge.testing import ManualClock, make_trace
from tracejudge.testing.judges import Reply, ScriptedJudge

VERDICT = Verdict(True, 1.0, "fine", "YES", ("suspected_injection",), "model-1", "fp")


class Shelf:
    """A VerdictStore in memory that notes how often it was asked."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str, int], str] = {}
        self.reads: list[int] = []
        self.away = False

    def get(self, keys: Collection[tuple[str, str, int]], /) -> Mapping[tuple[str, str, int], str]:
        if self.away:
            raise StoreUnavailable("away")
        self.reads.append(len(keys))
        return {key: self.held[key] for key in keys if key in self.held}

    def put(self, verdicts: Mapping[tuple[str, str, int], str], /) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.held.update(verdicts)


def panel_of(judge: ScriptedJudge, cache: VerdictCache | None, *specs: JudgeSpec) -> Panel:
    return Panel(
        list(specs) or [llm_spec()],
        clock=ManualClock(),
        spend=NothingSpent(),
        environ={},
        cache=cache,
        make_completer=lambda spec: judge,
        sleep=Sleeps(),
    )


def same(number: int, content: int = 0, **fields: Any) -> JudgeTask:
    """Trace `number` with the texts of trace `content`."""
    return make_task(make_trace(content, trace_id=f"t{number}", **fields))


async def test_two_hundred_requests_of_eighty_contents_are_eighty_calls_and_two_hundred_rows() -> None:
    judge = ScriptedJudge(lambda prompt: NO if "plan 7?" in prompt else YES)
    rng = random.Random(3)
    contents = [*range(80), *(rng.randrange(80) for _ in range(120))]
    rng.shuffle(contents)
    panel = panel_of(judge, VerdictCache())
    result = await panel.evaluate([same(number, content) for number, content in enumerate(contents)])
    assert judge.calls == len(result.calls) == 80
    assert [score.trace_id for score in result.scores] == [f"t{number}" for number in range(200)]
    failed = [content == 7 for content in contents]
    assert [score.outcome is Outcome.FAILED for score in result.scores] == failed
    by_content = {content: content_hash(same(0, content).trace) for content in contents}
    assert [score.content_hash for score in result.scores] == [by_content[content] for content in contents]
    assert sum(result.served.values()) == 200
    assert result.served["faithful", ""] == 80
    assert sum(score.usage.calls for score in result.scores) == 80
    assert sum("cached" in score.flags for score in result.scores) == 120


async def test_a_later_batch_is_served_from_memory() -> None:
    judge = ScriptedJudge(NO)
    panel = panel_of(judge, VerdictCache())
    (first,) = (await panel.evaluate([same(1)])).scores
    result = await panel.evaluate([same(2)])
    (second,) = result.scores
    assert judge.calls == 1
    assert result.served == Counter({("faithful", "memory"): 1})
    assert (second.trace_id, second.outcome, second.score) == ("t2", first.outcome, first.score)
    assert (second.feedback, second.raw_reply) == (first.feedback, first.raw_reply)
    assert second.model_reported == first.model_reported
    assert result.calls == ()


async def test_another_judge_another_text_and_another_prompt_are_asked_for_themselves() -> None:
    judge = ScriptedJudge(YES)
    cache = VerdictCache()
    panel = panel_of(judge, cache, llm_spec("one"), llm_spec("two"))
    await panel.evaluate([make_task(make_trace(0), "one", "two")])
    await panel.evaluate([make_task(make_trace(0, response="Another answer."), "one")])
    await panel_of(judge, cache, llm_spec("one", temperature=0.5)).evaluate([make_task(make_trace(0), "one")])
    assert judge.calls == 4


async def test_without_a_model_nothing_is_cached() -> None:
    cache = VerdictCache()
    result = await panel_of(ScriptedJudge(YES), cache, lexical_spec()).evaluate(
        [make_task(0, "lexical"), make_task(0, "lexical")]
    )
    assert result.served == {}
    assert len(cache.memory) == 0


async def test_only_settled_verdicts_are_kept() -> None:
    judge = ScriptedJudge(["hm", CallError("HTTP 400", status=400), YES])
    panel = panel_of(judge, VerdictCache())
    reasons = [(await panel.evaluate([same(number)])).scores[0].reason for number in range(4)]
    assert reasons == ["unparsable", "bad_request", "", ""]
    assert judge.calls == 3


async def test_those_who_wait_for_the_same_question_share_an_invalid_answer() -> None:
    judge = ScriptedJudge("hm")
    result = await panel_of(judge, VerdictCache()).evaluate([same(number) for number in range(20)])
    assert {score.reason for score in result.scores} == {"unparsable"}
    assert judge.calls == 1


@pytest.mark.parametrize("run_id", ["anchor", "noise"])
async def test_what_measures_a_judge_calls_it_every_time(run_id: str) -> None:
    judge = ScriptedJudge(YES)
    cache = VerdictCache()
    panel = panel_of(judge, cache)
    for _ in range(3):
        await panel.evaluate([same(1), same(2)], run_id=run_id)
    await panel.evaluate([same(1)], fresh=True)
    assert judge.calls == 7
    assert len(cache.memory) == 0


async def test_repeats_are_calls_of_their_own_and_their_majority_is_kept() -> None:
    judge = ScriptedJudge(YES)
    panel = panel_of(judge, VerdictCache(), llm_spec(repeats=3))
    await panel.evaluate([same(1), same(2)])
    await panel.evaluate([same(3)])
    assert judge.calls == 3


async def test_a_verdict_outlives_the_process_in_the_store() -> None:
    shelf, judge = Shelf(), ScriptedJudge(NO)
    first = panel_of(judge, VerdictCache(store=shelf))
    (before,) = (await first.evaluate([same(1)])).scores
    await first.close()
    result = await panel_of(judge, VerdictCache(store=shelf)).evaluate([same(2), same(3)])
    assert judge.calls == 1
    assert [score.feedback for score in result.scores] == [before.feedback] * 2
    assert set(result.served) == {("faithful", "store"), ("faithful", "in_flight")}


async def test_the_store_is_asked_for_a_batch_at_a_time() -> None:
    shelf = Shelf()
    panel = panel_of(ScriptedJudge(YES), VerdictCache(store=shelf))
    await panel.evaluate(make_tasks(range(100)))
    assert sum(shelf.reads) == 100
    assert len(shelf.reads) <= 3
    await panel.close()
    assert len(shelf.held) == 100


async def test_a_store_that_is_away_costs_a_call_and_no_verdict() -> None:
    shelf, judge = Shelf(), ScriptedJudge(YES)
    shelf.away = True
    panel = panel_of(judge, VerdictCache(store=shelf))
    assert len((await panel.evaluate([make_task(number) for number in range(5)])).scores) == 5
    shelf.away = False
    await panel.evaluate([make_task(9)])
    await panel.close()
    assert len(shelf.held) == 6


async def test_when_the_one_who_asks_is_cancelled_the_next_one_asks() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    class Judge(ScriptedJudge):
        async def complete(self, messages: Any) -> Any:
            asked.set()
            await go_on.wait()
            return await super().complete(messages)

    judge = Judge(YES)
    panel = panel_of(judge, VerdictCache())
    first = asyncio.ensure_future(panel.evaluate([same(1)]))
    await asked.wait()
    second = asyncio.ensure_future(panel.evaluate([same(2)]))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    go_on.set()
    assert len((await second).scores) == 1


async def test_one_who_waits_and_is_cancelled_takes_nothing_from_the_others() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    def script(prompt: str) -> Reply:
        return YES

    class Judge(ScriptedJudge):
        async def complete(self, messages: Any) -> Any:
            asked.set()
            await go_on.wait()
            return await super().complete(messages)

    panel = panel_of(Judge(script), VerdictCache())
    first = asyncio.ensure_future(panel.evaluate([same(1)]))
    await asked.wait()
    waiting = asyncio.ensure_future(panel.evaluate([same(2)]))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    assert len((await first).scores) == 1


def test_one_cache_serves_one_event_loop_after_the_other() -> None:
    judge = ScriptedJudge(YES)
    cache = VerdictCache(store=Shelf())
    panel = panel_of(judge, cache)
    for number in range(3):
        assert len(asyncio.run(panel.evaluate([same(number)])).scores) == 1
    assert judge.calls == 1


async def test_two_event_loops_at_once_are_refused_and_share_a_memory_instead() -> None:
    judge, shelf = ScriptedJudge(YES), Shelf()
    cache = VerdictCache(store=shelf)
    await panel_of(judge, cache).evaluate([same(1)])
    with pytest.raises(RuntimeError, match="another event loop"):
        await asyncio.to_thread(lambda: asyncio.run(cache.judged(CacheKey("x", "j"), never)))
    beside = panel_of(judge, VerdictCache(store=shelf, memory=cache.memory))
    result = await asyncio.to_thread(lambda: asyncio.run(beside.evaluate([same(2)])))
    assert (len(result.scores), judge.calls) == (1, 1)


async def never() -> Judgement:
    raise AssertionError("nobody is asked")


def test_memory_is_bounded_by_number_and_by_size_and_forgets_what_was_used_least_lately() -> None:
    memory = Memory(entries=3)
    keys = [CacheKey(str(number), "j") for number in range(4)]
    for key in keys[:3]:
        memory.put(key, VERDICT)
    assert memory.get(keys[0]) is VERDICT
    memory.put(keys[3], VERDICT)
    assert [memory.get(key) is not None for key in keys] == [True, False, True, True]
    small = Memory(size_bytes=5 * VERDICT.size_bytes)
    for number in range(100):
        small.put(CacheKey(str(number), "j"), VERDICT)
    assert len(small) == 5


def test_a_verdict_survives_its_text_and_another_release_s_text_is_no_verdict() -> None:
    assert Verdict.from_text(VERDICT.to_text()) == VERDICT
    for text in ("", "{}", "[1, 2]", "null", '[true, "x", "", "", [], "", ""]'):
        assert Verdict.from_text(text) is None


def test_the_content_hash_tells_apart_what_a_judge_reads() -> None:
    base = make_trace(0)
    hashes = {
        content_hash(trace)
        for trace in (
            base,
            make_trace(0, query=base.query + " "),
            make_trace(0, response=None),
            make_trace(0, response=""),
            make_trace(0, reference="x"),
            make_trace(0, source_nodes=[]),
            make_trace(0, source_nodes=[{"node_id": "a", "text": ""}]),
            make_trace(0, source_nodes=[{"node_id": "a", "text": None}]),
            make_trace(0, source_nodes=[{"node_id": "a", "text": "ab"}, {"node_id": "b", "text": "c"}]),
            make_trace(0, source_nodes=[{"node_id": "a", "text": "a"}, {"node_id": "b", "text": "bc"}]),
            make_trace(0, history=[{"role": "user", "content": "ab"}]),
            make_trace(0, history=[{"role": "usera", "content": "b"}]),
        )
    }
    assert len(hashes) == 12
    assert content_hash(make_trace(0, trace_id="other", app="another")) == content_hash(base)


async def test_verdicts_of_a_quick_judge_are_stored_together_and_all_of_them_at_the_end() -> None:
    class Slow(Shelf):
        writes = 0

        def put(self, verdicts: Mapping[tuple[str, str, int], str], /) -> None:
            time.sleep(0.05)  # a store's time for one insert
            self.writes += 1
            super().put(verdicts)

    shelf = Slow()
    panel = panel_of(ScriptedJudge(YES), VerdictCache(store=shelf))
    began = time.monotonic()
    for number in range(60):
        await panel.evaluate([same(number, number)])
        await asyncio.sleep(0.002)
    # The first at once; a rest is nine times as long as storing took, so that five is what no machine falls short of.
    assert shelf.writes <= 1 + (time.monotonic() - began) / (5 * 0.05)
    await panel.close()
    assert len(shelf.held) == 60
