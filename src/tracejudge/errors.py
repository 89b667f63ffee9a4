"""What can go wrong in the library and the consumer, split by what the caller can do about it.

TraceJudgeError
├── SettingsError            one or more settings are wrong; all faults are said at once    (exit 64)
├── MissingExtra             an optional dependency is absent; names the install command    (exit 64)
├── ServiceUnavailable       a service is not there: try again                              (exit 75)
│   ├── StoreUnavailable
│   ├── QueueUnavailable
│   └── EmbeddedStoreLocked  another process holds the directory and does not answer
├── StoreError               the store refused a statement (carries ClickHouse's code)
│   └── StoreUnusable        somebody must mend something first: password, right, schema        (exit 64)
│       └── SchemaTooNew     a newer release has migrated this store
├── JudgeGone                the judge cannot answer anybody: unknown model, bad key, no quota
│   └── JudgeDown            its endpoint does not answer now: it passes, traces can wait for it
├── CheckFailed              something that is watched is worse than its limit              (exit 1)
├── NothingToDecide          there is nothing to judge by, so nothing was decided           (exit 2)
└── NotFound                 what was asked for does not exist (a trace, a run, a judge)    (exit 64)
"""

from __future__ import annotations

from collections.abc import Sequence


class TraceJudgeError(Exception):
    """Base of everything the library raises on purpose. Messages end with what to do next."""


class SettingsError(TraceJudgeError):
    """Settings that cannot be used. `faults` holds one line for each, `key: what is wrong, and the remedy`."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class MissingExtra(TraceJudgeError):
    """A feature needs a package that is not installed."""

    def __init__(self, feature: str, *, extra: str) -> None:
        super().__init__(f"{feature} needs an extra that is not installed: pip install 'tracejudge[{extra}]'")
        self.feature = feature
        self.extra = extra


class ServiceUnavailable(TraceJudgeError):
    """A service outside this process does not answer at present: try again later."""


class StoreUnavailable(ServiceUnavailable):
    """The store does not answer now; what was sent may or may not have been stored, and may be sent again."""


class QueueUnavailable(ServiceUnavailable):
    """The queue does not answer now."""


class EmbeddedStoreLocked(ServiceUnavailable):
    """Another process holds the embedded store's directory."""

    def __init__(self, path: str, *, holder_pid: int | None, detail: str) -> None:
        holder = f"process {holder_pid}" if holder_pid is not None else "another process"
        super().__init__(f"{path}: held by {holder}: {detail}")
        self.path = path
        self.holder_pid = holder_pid


class StoreError(TraceJudgeError):
    """The store refused a statement. `code` is ClickHouse's error code where it gave one."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class StoreUnusable(StoreError):
    """The store answers but refuses us until a person mends a setting, a right or its schema."""


class SchemaTooNew(StoreUnusable):
    """The store's schema is newer than this release can serve."""


class JudgeGone(TraceJudgeError):
    """The judge cannot answer at all at present: its traces wait as undecided. `kind` is a short stable code."""

    def __init__(self, judge_name: str, kind: str, message: str) -> None:
        super().__init__(f"judge {judge_name!r} {self._says} ({kind}): {message}")
        self.judge_name = judge_name
        self.kind = kind

    _says = "is unavailable"


class JudgeDown(JudgeGone):
    """The judge's endpoint does not answer at present; nobody has to mend its settings, and it is tried again soon."""

    _says = "does not respond"


class CheckFailed(TraceJudgeError):
    """A check found something worse than its limit; going on would do harm."""


class NothingToDecide(TraceJudgeError):
    """There is nothing to work on or to decide by, such as no trace in a selection: that is neither good nor bad."""


class NotFound(TraceJudgeError):
    """What was asked for by its name does not exist: a typing error more often than not, and never a bad result."""
