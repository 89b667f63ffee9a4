"""`sampling_epochs`: which rates were in force from which event time on."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tracejudge.store.connection import Row
from tracejudge.store.rows import SamplingEpoch
from tracejudge.store.table import Columns, Table
from tracejudge.store.values import (
    bound_instant,
    from_json,
    from_microseconds,
    from_milliseconds,
    microseconds,
    milliseconds,
    to_json,
    whole,
)


class EpochsRead(NamedTuple):
    """Epochs, and when they were asked for: later ones may have been stored since."""

    read_at: datetime
    epochs: tuple[SamplingEpoch, ...]


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

    def insert_ahead(self, epoch: SamplingEpoch, *, lead_s: float) -> bool:
        """Stores an epoch if, by the store's own clock, it begins in `lead_s` or more; False when that is too late or
        when an epoch of this number stands.

        Whoever reads the epochs `lead_s` before an instant, or later, thus knows all that are in force at it.
        """
        starts_ms = milliseconds("starts_at", epoch.starts_at)
        text = to_json("rates", epoch.rates)
        self._connection.command(
            "INSERT INTO sampling_epochs (epoch, starts_at, rates, decided_at, row_version) "
            "SELECT {epoch:UInt64}, fromUnixTimestamp64Milli({starts:Int64}, 'UTC'), {rates:String}, now64(6), "
            "toUInt64(9223372036854775808 - toUnixTimestamp64Micro(now64(6))) "
            "WHERE toUnixTimestamp64Milli(now64(3)) + {lead_ms:Int64} <= {starts:Int64} "
            "AND {epoch:UInt64} NOT IN (SELECT epoch FROM sampling_epochs)",
            {
                "epoch": whole("epoch", epoch.epoch),
                "starts": starts_ms,
                "rates": text,
                "lead_ms": int(lead_s * 1000),
            },
        )
        rows = self._connection.query(
            "SELECT rates FROM sampling_epochs FINAL WHERE epoch = {epoch:UInt64}", {"epoch": epoch.epoch}
        )
        return bool(rows) and str(rows[0][0]) == text

    def in_force(self, start: datetime, end: datetime | None = None) -> EpochsRead:
        """The epochs in force somewhere in [start, end], in order, and the store's time before they were read."""
        read_at = from_microseconds(self._connection.query("SELECT now64(6)")[0][0])
        first = {"start": bound_instant("start", start)}
        until = "" if end is None else " AND starts_at <= {end:DateTime64(6, 'UTC')}"
        found = self._select(
            "WHERE starts_at >= (SELECT max(starts_at) FROM sampling_epochs WHERE starts_at <= "
            f"{{start:DateTime64(6, 'UTC')}}){until} ORDER BY starts_at",
            first if end is None else {**first, "end": bound_instant("end", end)},
        )
        return EpochsRead(read_at, tuple(found))

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
