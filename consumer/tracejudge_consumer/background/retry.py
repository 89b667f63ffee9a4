"""Invalid live scores taken up again: the judge is asked once more, and a settled verdict replaces the invalid one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final, Protocol

from tracejudge.scores import LIVE_RUN, JudgeId, Outcome, Score
from tracejudge.store import ScoreFilter
from tracejudge_consumer.background.again import AgainReport, total

PAGE: Final = 200


class ScoreRows(Protocol):
    def stream(self, where: ScoreFilter, /) -> Iterator[list[Score]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryFilter:
    """Which invalid scores; empty `reasons` and `judges` mean any."""

    since: datetime
    until: datetime | None = None
    reasons: frozenset[str] = frozenset()
    judges: frozenset[str] = frozenset()
    limit: int | None = None


def invalid_scores(scores: ScoreRows, where: RetryFilter, ids: Collection[JudgeId]) -> Iterator[Score]:
    """The invalid live scores of the filter by one of these JudgeIds, by event time, at most `limit` of them."""
    left = where.limit
    chosen = ScoreFilter(start=where.since, end=where.until, run_id=LIVE_RUN, outcome=Outcome.INVALID.value)
    for page in scores.stream(chosen):
        for score in page:
            if left == 0:
                return
            if where.reasons and score.reason not in where.reasons:
                continue
            if (where.judges and score.judge_name not in where.judges) or score.judge_id not in ids:
                continue
            if left is not None:
                left -= 1
            yield score


def by_reason(scores: Iterator[Score]) -> Counter[tuple[str, str]]:
    """How many there are of each judge and reason."""
    return Counter((score.judge_name, score.reason) for score in scores)


class JudgesAgain(Protocol):
    async def judge(self, rows: Sequence[Score], /) -> AgainReport: ...


async def retry(scores: Iterator[Score], again: JudgesAgain, *, progress: Callable[[AgainReport], None]) -> AgainReport:
    """Judges them again; stops when a judge answers nobody. `progress` is told after each page.

    Raises ServiceUnavailable when the store is away while they are read: an iterator that has raised is at its end, so
    asking it once more would call the rest done.
    """
    reports: list[AgainReport] = []

    def next_page() -> list[Score]:
        return list(islice(scores, PAGE))

    while page := await asyncio.to_thread(next_page):
        reports.append(await again.judge(page))
        progress(total(reports))
        if reports[-1].gone:
            break
    return total(reports) if reports else AgainReport()
