"""The account of what became of everything that was logged, as users see it.

logged = sampled_out + sent + queued + spooled + sum of dropped            at every instant
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

DropReason = Literal[
    "queue_full",  # the outbox was at its limit: the newest is dropped, what waits already is nearer to being sent
    "too_large",  # it does not fit the record limit even with every text cut away, or the whole outbox
    "invalid",  # it breaks the wire contract in a way that could not be mended
    "closed",  # logged after close()
    "disabled",  # logged while the client is switched off
    "transport_rejected",  # the queue will never take it
    "unsent_at_close",  # close() came to its limit; some of these may have arrived without a confirmation
    "spool_lost",  # the spool's file was deleted or damaged while traces waited in it
    "hook_failed",  # a step over the records broke (redaction): nothing of the trace leaves the process
    "internal_error",  # our own fault
]


@dataclass(frozen=True)
class ClientStats:
    """What became of everything logged since the process began or was forked. `queued` includes what is on its way."""

    logged: int
    sampled_out: int
    sent: int
    queued: int
    """In memory."""
    queued_bytes: int
    spooled: int
    """On disk, to be sent by this process, or by the next one when this one ends."""
    recovered: int
    """Sent for processes that had ended; these are not among `logged`."""
    dropped: Mapping[str, int]
    truncated: int
    lossy: int
    notes: Mapping[str, int]
    """What the steps over the records counted, by name (texts that a failing redaction hook masked, say)."""
    last_error: str | None

    @property
    def dropped_total(self) -> int:
        """Dropped for any reason."""
        return sum(self.dropped.values())
