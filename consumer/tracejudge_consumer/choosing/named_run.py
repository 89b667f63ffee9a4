"""Looks up a run by its name; where there is none, the error lists the names there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tracejudge.errors import NotFound
from tracejudge.scores import RESERVED_RUNS
from tracejudge.store import Store
from tracejudge_consumer.terminal.rendering import ident

_LISTED: Final = 20


def require_run(store: Store, run_id: str) -> None:
    """Raises NotFound for a run of which the store has neither a manifest nor a score. Those of our own are always
    there, empty or not."""
    # A run in which nothing is judged yet has a manifest and no scores; one of `score` or of old has scores alone.
    if run_id in RESERVED_RUNS or store.runs.get(run_id) is not None:
        return
    known = sorted({*store.scores.run_ids(), *(one.run_id for one in store.runs.all())})
    if run_id not in known:
        raise no_run(run_id, known)


def no_run(run_id: str, known: Sequence[str]) -> NotFound:
    """The error for a run that is not among the `known` ones."""
    there = f"runs: {listed(known)}" if known else "no run has scores yet"
    return NotFound(f"there is no run {run_id!r}; {there}; `tracejudge replay --run NAME` creates one")


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(map(ident, names[:_LISTED])) + more
