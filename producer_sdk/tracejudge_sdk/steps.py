"""Steps over the records: what happens to each between being built and being encoded, in the sending thread.

This is where privacy is made: a step sees a record that fits the wire contract, every text of it where the contract
says, and gives the record that may leave the process. Nothing is encoded, kept on disk, sent or written to a log before
all steps have run. A step that raises costs the record, counted as hook_failed: a text that was not looked at stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tracejudge_sdk.trace import Record


class RecordStep(Protocol):
    """One step. Called by one thread at a time, never while the process forks."""

    def __call__(self, record: Record, note: Callable[[str], None]) -> Record:
        """The record to go on with. `note(name)` counts something in `stats().notes`."""
        ...


class HookFailed(Exception):
    """A step raised; says which one and the type of its error, never the text it had in hand."""


def run_steps(steps: Sequence[RecordStep], record: Record, note: Callable[[str], None]) -> Record:
    """The record after every step, in order. Raises HookFailed when one of them raises."""
    for step in steps:
        try:
            record = step(record, note)
        except Exception as error:  # noqa: BLE001 - hooks are the service's own code
            # Not chained: the error may hold the text that was not to leave.
            raise HookFailed(f"{type(step).__name__}: {type(error).__name__}: the record was not sent") from None
    return record
