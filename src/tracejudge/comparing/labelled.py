"""What people said about traces by one criterion, as one yes or no a trace."""

from __future__ import annotations

from collections.abc import Iterable

from tracejudge.scores import Label, TraceKey


def settled_labels(labels: Iterable[Label]) -> dict[TraceKey, bool]:
    """Yes or no by the majority of the sources; a trace on which they are evenly split is left out.

    Values are 0 to 1; one half or more is a yes of that source, as a pass is for a judge.
    """
    votes: dict[TraceKey, int] = {}
    for label in labels:
        key = TraceKey(label.environment, label.app, label.trace_id)
        votes[key] = votes.get(key, 0) + (1 if label.value >= 0.5 else -1)
    return {key: balance > 0 for key, balance in votes.items() if balance != 0}
