"""The form in which records stand in the queue: how one is read, and where the texts of bare passages are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracejudge_consumer.intake import RawRecord
from tracejudge_consumer.intake.resolve import NodeResolver
from tracejudge_sdk.codec import decode
from tracejudge_sdk.trace import Record


def own_form(raw: RawRecord) -> Record:
    """A record in the form of the wire contract. Raises RecordError."""
    return decode(raw.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordForm:
    """What the pipeline needs to know of its records. `read` raises RecordError and nothing else."""

    read: Callable[[RawRecord], Record] = own_form
    resolver: NodeResolver | None = None
