"""How much of a replay is held while the store is slower than the judges."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.panels import lexical_spec
from tracejudge.errors import StoreUnavailable
from tracejudge.judging import NothingSpent, Panel
from tracejudge.replay import ReplayReport, Selection, run
from tracejudge.replay.manifest import OpenRun
from tracejudge.replay.run import replay
from tracejudge.replay.sources import Page, Place
from tracejudge.scores import Outcome, Score, Spend
from tracejudge.store import RunManifest, Store, TraceFilter
from tracejudge.testing import ManualClock, make_trace
from tracejudge.testing.builders import START
from tracejudge_sdk.trace import Trace

PAGES, PAGE_TRACES, MOST = 40, 50, 100


class Pages:
    """So many pages of traces; `given` says how many were taken, and the store is asked for more meanwhile."""

    def __init__(self) -> None:
        self.given = 0

    def count(self) -> int:
        return PAGES * PAGE_TRACES

    def pages(self, after: Place | None = None) -> Iterator[Page]:
        for number in range(PAGES):
            self.given += 1
            first = number * PAGE_TRACES
            traces = tuple(make_trace(first + n) for n in range(PAGE_TRACES))
            yield Page(partial(_none_expired, traces), place={"number": number})


def _none_expired(traces: Sequence[Trace]) -> tuple[Sequence[Trace], int]:
    return traces, 0


class SlowScores:
    """Takes each insert when nothing else has happened for a while, and notes how much was ahead of it."""

    def __init__(self, source: Pages) -> None:
        self._source = source
        self.stored = 0
        self.most_ahead = 0

    def insert(self, rows: Sequence[Score]) -> None:
        given = -1
        while given != self._source.given:  # until no page is taken any more
            given = self._source.given
            threading.Event().wait(0.3)
        self.most_ahead = max(self.most_ahead, given * PAGE_TRACES - self.stored)
        self.stored += len(rows)

    def outcomes(self, run_id: str) -> dict[Outcome, int]:
        return {Outcome.PASSED: self.stored}


class Runs:
    def save(self, manifest: RunManifest) -> None:
        """Nobody reads it here."""


class Away:
    """A store that cannot be told of a run."""

    def save(self, manifest: RunManifest) -> None:
        raise StoreUnavailable("the store is away")


class Calls:
    def of_run(self, run_id: str) -> Spend:
        return Spend(0, 0.0)


async def replayed(source: Pages, scores: SlowScores, runs: Runs | Away) -> ReplayReport:
    store: Any = SimpleNamespace(scores=scores, runs=runs, calls=Calls())
    manifest = RunManifest(run_id="again", kind="replay", started_at=START, manifest={"attempts": [{}]})
    clock, spec = ManualClock(START), lexical_spec()
    return await replay(
        cast(Store, store),
        Panel([spec], clock=clock, spend=NothingSpent()),
        specs=[spec],
        source=source,
        run=OpenRun(run_id="again", selection=Selection(where=TraceFilter()), stored=manifest),
        clock=clock,
    )


async def test_what_waits_for_a_slow_store_is_bounded_also_of_judges_that_answer_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "_MOST_UNSTORED", MOST)
    source = Pages()
    scores = SlowScores(source)
    report = await replayed(source, scores, Runs())
    assert report.complete
    assert scores.stored == PAGES * PAGE_TRACES
    # One page is read ahead, and one waits for room.
    assert scores.most_ahead <= run._LEAST_OUT + MOST + 2 * PAGE_TRACES


async def test_a_run_that_cannot_be_written_down_asks_nothing() -> None:
    source = Pages()
    scores = SlowScores(source)
    with pytest.raises(StoreUnavailable):
        await replayed(source, scores, Away())
    assert scores.stored == 0
    assert source.given <= 1  # what is read ahead
