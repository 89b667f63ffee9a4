"""Two versions' answers to the same questions, for a judge that says which of the two is better.

The answers of one version are gone through as ever; each carries the other version's answer to its question in the
place of the reference, which is what a pairwise judge compares with. So plans, caps, resuming and manifests are a
replay's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from tracejudge.replay.sources import Page, Place, Source, StoreSource
from tracejudge.scores import TraceKey
from tracejudge.store import Store, TraceFilter
from tracejudge_sdk.trace import Trace


class PairSource(Source):
    """The latest answer of the filter's version to each question that `against` answered too.

    Memory grows with the questions, which are those of a dataset. Questions of only one version are passed over.
    """

    def __init__(self, store: Store, where: TraceFilter, *, against: str) -> None:
        mine = store.cases.answers(replace(where, draw=None))
        theirs = store.cases.answers(replace(where, version=against, draw=None))
        self._other = {mine[case].key: theirs[case].response for case in mine.keys() & theirs.keys()}
        self._traces = StoreSource(store, where, asked=True)

    def count(self) -> int:
        """How many questions both answered; of a sample, at most so many."""
        return len(self._other)

    def pages(self, after: Place | None = None) -> Iterator[Page]:
        for page in self._traces.pages(after):
            yield Page(partial(self._made, page), place=page.place)

    def _made(self, page: Page) -> tuple[Sequence[Trace], int]:
        return list(self._paired(page.traces)), page.expired

    def _paired(self, traces: Sequence[Trace]) -> Iterator[Trace]:
        for trace in traces:
            other = self._other.get(TraceKey(trace.environment, trace.app, trace.trace_id))
            if other is not None:
                yield trace.model_copy(update={"reference": other})
