"""`sampling_epochs`: which rates were in force from which event time on."""

from __future__ import annotations

from tracejudge.store.connection import Row
from tracejudge.store.rows import SamplingEpoch
from tracejudge.store.table import Columns, Table
from tracejudge.store.values import (
    from_json,
    from_microseconds,
    from_milliseconds,
    microseconds,
    milliseconds,
    to_json,
    whole,
)


class SamplingEpochs(Table[SamplingEpoch]):
    """Keyed by number; the first decision for a number stands, so that redelivery decides alike."""

    name = "sampling_epochs"
    columns = Columns(
        epoch="UInt64",
        starts_at="DateTime64(3, 'UTC')",
        rates="String",
        decided_at="DateTime64(6, 'UTC')",
        row_version="UInt64",
    )

    def insert(self, epoch: SamplingEpoch) -> None:
        """Stores an epoch."""
        self._insert([epoch])

    def all(self) -> list[SamplingEpoch]:
        """All epochs in order."""
        return self._select("ORDER BY epoch")

    def _encode(self, value: SamplingEpoch) -> Row:
        decided_us = microseconds("decided_at", value.decided_at)
        return (
            whole("epoch", value.epoch),
            milliseconds("starts_at", value.starts_at),
            to_json("rates", value.rates),
            decided_us,
            2**63 - decided_us,
        )

    def _decode(self, row: Row) -> SamplingEpoch:
        return SamplingEpoch(
            epoch=row[0],
            starts_at=from_milliseconds(row[1]),
            rates=from_json(row[2]),
            decided_at=from_microseconds(row[3]),
        )
