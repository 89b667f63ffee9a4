"""How far a judge says of its anchors what it said of them before, or what people say.

The reference of a (set, JudgeId) is the first settled verdict on each anchor. With n anchors that have one, of which a
got the same verdict again, the agreement is a / n with Wilson's interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tracejudge.anchors.round import AnchorRound
from tracejudge.windows import wilson


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """`agreed` of `n` verdicts are as they should be; `value`, `low` and `high` are None of none."""

    n: int
    agreed: int
    value: float | None
    low: float | None
    high: float | None


def agreement(verdicts: Mapping[str, bool], reference: Mapping[str, bool]) -> Agreement:
    """The share of anchors on which two sets of verdicts agree, over the anchors that both judged."""
    both = verdicts.keys() & reference.keys()
    return _share(sum(verdicts[case] == reference[case] for case in both), len(both))


def pass_share(verdicts: Mapping[str, bool], *, among: Iterable[str] | None = None) -> Agreement:
    """The share of verdicts that pass, of all anchors or of those named."""
    chosen = verdicts.keys() if among is None else verdicts.keys() & set(among)
    return _share(sum(verdicts[case] for case in chosen), len(chosen))


def references(rounds: Iterable[AnchorRound]) -> dict[str, bool]:
    """The first settled verdict on each anchor; rounds in the order of their time."""
    found: dict[str, bool] = {}
    for one in rounds:
        for case, passed in one.settled.items():
            found.setdefault(case, passed)
    return found


def _share(part: int, whole: int) -> Agreement:
    if whole == 0:
        return Agreement(n=0, agreed=0, value=None, low=None, high=None)
    bounds = wilson(part / whole, whole)
    return Agreement(n=whole, agreed=part, value=part / whole, low=bounds.low, high=bounds.high)
