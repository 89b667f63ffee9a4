"""Traces that the judge of a series failed on, and whether they could explain a fall."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from tracejudge.alerts.series.health import UNHEALTHY_ABOVE
from tracejudge.windows.rate import wilson

MOST_PLACES: Final = 256
"""Places remembered. Failures further back are forgotten, which only makes a page more likely."""


class Unjudged:
    """Counts failures by their place, which is the number of verdicts before them."""

    __slots__ = ("_places",)

    def __init__(self, places: Iterable[tuple[int, int]] = ()) -> None:
        self._places: deque[tuple[int, int]] = deque(places, MOST_PLACES)  # verdicts before, failures

    def add(self, verdicts: int) -> None:
        """Counts a failure after so many verdicts."""
        places = self._places
        if places and places[-1][0] == verdicts:
            places[-1] = (verdicts, places[-1][1] + 1)
        else:
            places.append((verdicts, 1))

    def since(self, verdicts: int) -> int:
        """Failures after that many verdicts."""
        return sum(count for place, count in self._places if place >= verdicts)

    def to_state(self) -> list[tuple[int, int]]:
        """JSON values; `Unjudged(state)` continues exactly."""
        return list(self._places)


def could_explain(*, failed: int, judged: int, rate: float, boundary: float) -> bool:
    """Whether the pass rate may not be below `boundary` if all `failed` traces beside the `judged` ones were good: by
    Wilson's 95 % interval of that rate.

    Failures are seldom random: a judge that times out on long, good answers leaves the bad ones. Where at most
    `UNHEALTHY_ABOVE` of the traces failed, the answer is no.

    >>> could_explain(failed=70, judged=30, rate=0.4, boundary=0.8)
    True
    >>> could_explain(failed=30, judged=70, rate=0.4, boundary=0.7)
    False
    """
    total = failed + judged
    if failed <= UNHEALTHY_ABOVE * total:
        return False
    return wilson((rate * judged + failed) / total, total).high >= boundary
