"""What can go wrong in the SDK.

TraceJudgeSdkError
├── ConfigError          a setting is missing or wrong; raised at construction only
├── RecordError          a record breaks the wire contract (carries reason, field)
│   └── RecordTooLarge   it cannot be cut below the record limit
└── TransportError       a batch could not be handed over
    ├── TransportUnavailable   try again later
    │   ├── SpoolFull          the disk holds as much as it may
    │   └── LogDamaged         the file of a SQLite log is damaged
    ├── TransportRejected      never accepted as it is
    └── LeaseLost              another reader of the group holds the lease
"""

from __future__ import annotations


class TraceJudgeSdkError(Exception):
    """Base of everything this package raises."""


class ConfigError(TraceJudgeSdkError):
    """A setting is missing or wrong. The message names the setting, the value and the remedy."""


class RecordError(TraceJudgeSdkError):
    """A record that breaks the wire contract.

    `reason` is a short stable code (`not_utf8`, `not_json`, `not_an_object`, `schema_too_new`, `unknown_kind`,
    `invalid_field`, `too_large`); `field` names the offending field where there is one.
    """

    def __init__(self, reason: str, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.field = field


class RecordTooLarge(RecordError):
    """A record that stays above the limit even with every text cut away."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            "too_large",
            f"record of {size_bytes} bytes cannot be cut below the limit of {limit_bytes} bytes: "
            "send fewer source nodes or less metadata, or raise max_record_bytes here and on the queue",
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class TransportError(TraceJudgeSdkError):
    """A batch of records could not be handed over.

    `failed` holds the positions in the batch that were not, the others were; None when that is not known.
    """

    def __init__(self, message: str, *, failed: tuple[int, ...] | None = None) -> None:
        super().__init__(message)
        self.failed = failed


class TransportUnavailable(TransportError):
    """The queue does not answer at present; the same batch may be sent again later."""


class SpoolFull(TransportUnavailable):
    """The spool on disk holds as much as it may."""


class LogDamaged(TransportUnavailable):
    """The file of a SQLite log is damaged: it will not read better later, but a new one in its place works."""


class TransportRejected(TransportError):
    """The queue will never accept this batch as it is."""


class LeaseLost(TransportError):
    """A reader acted for a group whose lease it does not hold: another one may be reading on."""

    def __init__(self, group: str, owner: str, holder: str | None) -> None:
        super().__init__(
            f"group {group!r}: the lease is held by {holder!r}, not by {owner!r}: drop what was read, acquire it again"
        )
        self.group = group
        self.owner = owner
        self.holder = holder
