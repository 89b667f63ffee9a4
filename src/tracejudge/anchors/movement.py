"""Where a judge moved, anchor by anchor: what it passed before and passes now, as a paired difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracejudge.comparing.paired import Estimate, PairedCounts, paired_difference
from tracejudge.counted import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Compares the anchors that have a verdict in two rounds: A is the earlier round, B the later."""

    counts: PairedCounts
    difference: Estimate | None  # of the share that passes, now minus then; None without such anchors
    now_failed: tuple[str, ...]  # anchors that passed
    now_passed: tuple[str, ...]  # anchors that failed

    @property
    def flipped(self) -> int:
        return len(self.now_failed) + len(self.now_passed)


def movement(then: Mapping[str, bool], now: Mapping[str, bool]) -> Movement:
    """Two verdicts on each anchor, held against each other."""
    counts = PairedCounts()
    failed, passed = [], []
    for case in sorted(then.keys() & now.keys()):
        counts = counts.adding(a_passed=then[case], b_passed=now[case])
        if then[case] and not now[case]:
            failed.append(case)
        elif now[case] and not then[case]:
            passed.append(case)
    return Movement(
        counts=counts, difference=paired_difference(counts), now_failed=tuple(failed), now_passed=tuple(passed)
    )


def movement_in_words(one: Movement) -> str:
    """From x to y on n anchors, with the interval of the difference.

    >>> movement_in_words(movement({"a": True, "b": True, "c": False}, {"a": True, "b": True, "c": False}))
    'it passes 66.7 % of 3 anchors, as before; no verdict is another one'
    """
    counts, difference = one.counts, one.difference
    if difference is None:
        return "no anchor has a verdict then and now"
    then, now = 100.0 * counts.a_passed / counts.n, 100.0 * counts.b_passed / counts.n
    if not one.flipped:
        return f"it passes {now:.1f} % of {counted(counts.n, 'anchor')}, as before; no verdict is another one"
    return (
        f"it went from {then:.1f} % to {now:.1f} % passed on {counted(counts.n, 'anchor')}, "
        f"{100 * difference.value:+.1f} points ({100 * difference.low:+.1f} to {100 * difference.high:+.1f}): "
        f"{len(one.now_failed)} that passed fail now, "
        f"{len(one.now_passed)} the other way"
    )
