"""`retry`: every invalid score is asked about, whatever the pages; a store that fails on the way ends it aloud."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from tracejudge.errors import StoreUnavailable
from tracejudge.scores import Score
from tracejudge.testing import make_score
from tracejudge_consumer.background.again import AgainReport
from tracejudge_consumer.background.retry import PAGE, retry


class _Asked:
    def __init__(self) -> None:
        self.pages: list[list[str]] = []

    async def judge(self, rows: Sequence[Score], /) -> AgainReport:
        self.pages.append([row.trace_id for row in rows])
        return AgainReport(settled=len(rows))


def test_no_score_is_lost_between_two_pages() -> None:
    scores = [make_score(number) for number in range(2 * PAGE + 3)]
    asked, told = _Asked(), list[AgainReport]()
    report = asyncio.run(retry(iter(scores), asked, progress=told.append))
    assert [name for page in asked.pages for name in page] == [score.trace_id for score in scores]
    assert [len(page) for page in asked.pages] == [PAGE, PAGE, 3]
    assert report.settled == len(scores) == told[-1].settled


def test_a_store_that_goes_away_half_way_is_not_the_end_of_the_scores() -> None:
    def failing() -> Iterator[Score]:
        yield from (make_score(number) for number in range(PAGE + 1))
        raise StoreUnavailable("gone for a moment")

    asked = _Asked()
    with pytest.raises(StoreUnavailable):
        asyncio.run(retry(failing(), asked, progress=lambda _: None))
    assert len(asked.pages) == 1
