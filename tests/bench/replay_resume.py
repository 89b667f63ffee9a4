"""What a replay that is broken off and resumed asks again, and what it misses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tests.bench.frame import Figure, Run, exactly, shown
from tests.bench.judging_sim import Timed, panel_of
from tests.bench.replay_bed import WORKERS, replay_of, stored
from tests.support.panels import llm_spec
from tracejudge.replay import ReplayReport
from tracejudge.store import Store


def resume(run: Run) -> Iterator[Figure]:
    """A replay that is broken off three times: verdicts that were settled by then and are bought again."""
    traces = run.pick(6_000, 900)
    with stored(traces) as store:
        asked: list[int] = []

        async def reply(row: int, call: int) -> None:
            asked.append(row)
            if stop_at[-1] == len(asked):
                stopping[-1].cancel()
            await asyncio.sleep(0.001)

        stop_at: list[int] = []
        stopping: list[asyncio.Task[ReplayReport]] = []
        judge = Timed(reply)
        spec = llm_spec(concurrency=WORKERS, max_calls_per_h=10**9)
        again = 0

        async def broken_off(after: int) -> None:
            stop_at.append(len(asked) + after)
            work = replay_of(store, panel_of(judge, workers=WORKERS), spec, "resumed", first=0, end=traces)
            stopping.append(asyncio.create_task(work))
            await asyncio.gather(stopping[-1], return_exceptions=True)

        for _ in range(3):
            before = _settled(store)
            place = len(asked)
            asyncio.run(broken_off(traces // 5))
            again += len(before.intersection(asked[place:]))
        before, place = _settled(store), len(asked)
        report = asyncio.run(replay_of(store, panel_of(judge, workers=WORKERS), spec, "resumed", first=0, end=traces))
        again += len(before.intersection(asked[place:]))
        missed = traces - len(_settled(store))
        assert report.complete
    yield exactly("5 settled verdicts bought again by a resumed run", again, 0)
    yield exactly("6 traces missed by a resumed run", missed, 0)
    yield shown("  calls of all attempts, x traces", [len(asked) / traces])


def _settled(store: Store) -> set[int]:
    rows = store.query("SELECT trace_id FROM scores FINAL WHERE run_id = 'resumed' AND outcome != 'invalid'")
    return {int(row[0].removeprefix("t-")) for row in rows}
