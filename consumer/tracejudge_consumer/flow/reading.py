"""Watches reading: the lag in records and in seconds, and whether reading has stalled.

A queue client that is stuck polls for ever and is given nothing, while its loop turns and its process looks healthy.
The queue gives it away: records wait in partitions that are not paused, and none is handed out.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from tracejudge.clock import Clock
from tracejudge.counted import counted
from tracejudge_consumer.intake import PartitionKey, RawRecord
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.metrics import Metrics

_LOG = logging.getLogger(__name__)


class ReadingWatch:
    """Lag and stalls of one consumer. Used by the intake thread."""

    def __init__(self, *, clock: Clock, metrics: Metrics, health: Health, stall_after_s: float) -> None:
        """`stall_after_s`: how long records may wait while none is handed out."""
        self._clock = clock
        self._metrics = metrics
        self._health = health
        self._stall_after_s = stall_after_s
        self._read_up_to: dict[PartitionKey, float] = {}  # seconds since 1970: older records were all handed out
        self._waiting_since: float | None = None
        self._stalled = False
        self._finished = 0
        self._finished_at = clock.monotonic()

    def read(self, records: Sequence[RawRecord]) -> None:
        """Notes the records that a poll handed out."""
        if records:
            self._waiting_since = None
            last = {(raw.source, raw.partition): raw for raw in records}
            for raw in last.values():
                self._read_up_to[raw.partition_key] = raw.timestamp_ms / 1000

    def look(
        self,
        lag: Mapping[PartitionKey, int | None],
        *,
        paused: Collection[PartitionKey],
        in_flight: int,
        finished: int,
    ) -> None:
        """Updates metrics and health; call it every few seconds.

        `lag` holds, by partition, the records not yet handed out (None: the queue does not say); `finished` is how many
        records have been finished since the start.
        """
        now, at = self._clock.now().timestamp(), self._clock.monotonic()
        for gone in self._read_up_to.keys() - lag.keys():
            del self._read_up_to[gone]
        behind_s: dict[PartitionKey, float] = {}
        for key, records in lag.items():
            if records == 0:
                # All that there is was handed out: what comes next has waited for less than until the next look.
                self._read_up_to[key] = now
            if key in self._read_up_to:
                behind_s[key] = max(0.0, now - self._read_up_to[key])
        self._metrics.set_lag(lag, behind_s)
        waiting = sum(records or 0 for key, records in lag.items() if key not in paused)
        if not waiting:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = at
        if finished != self._finished or not in_flight:
            self._finished, self._finished_at = finished, at
        unfinished_s = at - self._finished_at
        self._metrics.unfinished.set(unfinished_s)
        self._health.reading(
            queue_answers=not lag or any(records is not None for records in lag.values()),
            stall=self._stall(at, waiting),
            unfinished_s=unfinished_s,
        )

    def _stall(self, at: float, waiting: int) -> str | None:
        stalled = self._waiting_since is not None and at - self._waiting_since >= self._stall_after_s
        wait = counted(waiting, "record waits", "records wait")
        words = f"reading has stalled: {wait}, and none was handed out for {self._stall_after_s:g} s"
        if stalled and not self._stalled:
            _LOG.error("%s; a restart resumes reading", words)
        elif self._stalled and not stalled:
            _LOG.warning("reading goes on")
        self._stalled = stalled
        self._metrics.stalled.set(stalled)
        return words if stalled else None
