"""Two runs side by side: the traces that both have judged, from two streams in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

from tracejudge.scores import Score
from tracejudge.store.queries import ScoreFilter, TraceFilter
from tracejudge.store.rows import Pair

Stream = Callable[[ScoreFilter, ScoreFilter], Iterator[list[Score]]]
"""The scores of the first filter, of traces that the judge and run of the second scored too, a page at a time, in the
order of event time, trace id, environment and app."""


def paired(stream: Stream, run_a: str, run_b: str, *, judge_a: str, judge_b: str, where: TraceFilter) -> Iterator[Pair]:
    """Traces judged in both runs, in event time order, each with both verdicts."""
    mine = ScoreFilter.within(where)
    of_a, of_b = replace(mine, run_id=run_a, judge=judge_a), replace(mine, run_id=run_b, judge=judge_b)
    # What only one judge has is most of it, where a sample was judged: it would be read to be thrown away.
    left, right = _latest(stream(of_a, of_b)), _latest(stream(of_b, of_a))
    a, b = next(left, None), next(right, None)
    while a is not None and b is not None:
        if (order := _place(a)) == (other := _place(b)):
            if not where.trace_ids or a.trace_id in where.trace_ids:
                yield Pair(key=a.key, a=a, b=b)
            a, b = next(left, None), next(right, None)
        elif order < other:
            a = next(left, None)
        else:
            b = next(right, None)


def _latest(pages: Iterator[list[Score]]) -> Iterator[Score]:
    """One score a trace, in order: the latest of those that are there."""
    held: Score | None = None
    for page in pages:
        for score in page:
            if held is not None and _place(held) != _place(score):
                yield held
                held = None
            if held is None or held.judged_at <= score.judged_at:
                held = score
    if held is not None:
        yield held


def _place(score: Score) -> tuple[datetime, str, str, str]:
    # As ClickHouse orders: texts by their bytes in UTF-8, which is the order of code points.
    return (score.event_time, score.trace_id, score.environment, score.app)
