"""The settings of a client, checked once, all faults said together, without touching network or disk."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracejudge_sdk.errors import ConfigError
from tracejudge_sdk.head import TagRules
from tracejudge_sdk.head import faults_of as tag_faults
from tracejudge_sdk.privacy import Privacy
from tracejudge_sdk.redact import Hook
from tracejudge_sdk.trace import DEFAULT_ENVIRONMENT, MAX_NAME_CHARS, MIN_PROBABILITY
from tracejudge_sdk.transports import parse_queue_url

if TYPE_CHECKING:
    from tracejudge_sdk.account import ClientStats

PREFIX: Final = "TRACEJUDGE_"
DEFAULT_QUEUE_RECORDS: Final = 10_000
DEFAULT_QUEUE_BYTES: Final = 32 * 1024 * 1024

MAX_INTERVAL_S: Final = 86_400.0
FILE_LOCKS: Final = importlib.util.find_spec("fcntl") is not None
DEFAULT_SPOOL_BYTES: Final = 256 * 1024 * 1024
LEAST_SPOOL_BYTES: Final = 1_000_000
"""One record of the largest size has to fit."""

_TRUE: Final = frozenset(("1", "true", "yes", "on"))
_FALSE: Final = frozenset(("0", "false", "no", "off"))


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """What a `TraceClient` needs to know. Raises ConfigError naming every fault."""

    queue: str | None
    """Queue URL (tracejudge_sdk.transports); None only where a transport is handed in or the client is switched off."""
    app: str
    """The service that answers; 1-256 characters."""
    environment: str = DEFAULT_ENVIRONMENT
    version: str = ""
    """The release of the service."""
    head_probability: float = 1.0
    """The share of traces that is logged, 0 to 1, decided by the trace id and recorded in each trace."""
    always_keep_errors: bool = True
    """Traces with the status error are logged whatever the share; so are those with tags that `always_keep_tags` names
    (`head`). Their head_probability is 1."""
    always_keep_tags: TagRules = field(default_factory=dict)
    """Tag to a value, a list of values, or "*"."""
    queue_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """For the library behind the queue; with Kafka the settings of kafka-python's producer (SASL, TLS, ...)."""
    max_queue_records: int = DEFAULT_QUEUE_RECORDS
    max_queue_bytes: int = DEFAULT_QUEUE_BYTES
    """What may wait in memory; above it the newest trace is dropped and counted."""
    exit_timeout_s: float = 5.0
    """How long the end of the process may be held up to send what still waits."""
    enabled: bool = True
    redact: Sequence[Hook | str] = ()
    """What of a trace may leave the process: see `privacy.Privacy` for this and the next three."""
    allow_fields: Collection[str] | None = None
    capture_text: bool = True
    hash_key: str | None = field(default=None, repr=False)

    spool: str | os.PathLike[str] | None = None
    """A folder on a local disk where traces wait that the queue has not taken yet (`spool`); None: in memory only. One
    folder belongs to one queue: what a process left in it is sent by the next one that uses it."""
    spool_max_bytes: int = DEFAULT_SPOOL_BYTES
    """What all processes together may keep in that folder."""
    handle_sigterm: bool = False
    """Whether SIGTERM, where nobody else handles it, first sends what waits, within `exit_timeout_s`."""
    on_stats: Callable[[ClientStats], object] | None = None
    """Called with the account every `stats_interval_s` seconds, by a thread of its own, and a last time at the end."""
    stats_interval_s: float = 60.0

    @property
    def privacy(self) -> Privacy:
        """The settings of privacy by themselves."""
        return Privacy(
            redact=self.redact,
            allow_fields=self.allow_fields,
            capture_text=self.capture_text,
            hash_key=self.hash_key,
        )

    def __post_init__(self) -> None:
        faults: list[str] = []
        if self.enabled and self.queue is not None:
            try:
                parse_queue_url(self.queue)
            except ConfigError as error:
                faults.append(str(error))
        for name in ("app", "environment", "version"):
            value = getattr(self, name)
            least = 0 if name == "version" else 1
            if not isinstance(value, str) or not least <= len(value) <= MAX_NAME_CHARS:
                faults.append(f"{name}: {value!r:.80} is not a text of {least} to {MAX_NAME_CHARS} characters")
        if not _is_number(self.head_probability) or not 0.0 <= self.head_probability <= 1.0:
            faults.append(f"head_probability: {self.head_probability!r} is not a number from 0 to 1")
        elif 0.0 < self.head_probability < MIN_PROBABILITY:
            faults.append(
                f"head_probability: {self.head_probability!r} is below the smallest share, {MIN_PROBABILITY}: "
                "write 0 to log only what is always kept"
            )
        for name in ("max_queue_records", "max_queue_bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                faults.append(f"{name}: {value!r} is not a whole number of at least 1")
        if not _is_number(self.exit_timeout_s) or not math.isfinite(self.exit_timeout_s) or self.exit_timeout_s < 0:
            faults.append(f"exit_timeout_s: {self.exit_timeout_s!r} is not a number of seconds >= 0")
        if not _is_number(self.stats_interval_s) or not 0 < self.stats_interval_s <= MAX_INTERVAL_S:
            faults.append(f"stats_interval_s: {self.stats_interval_s!r} is not a number of seconds above 0")
        if self.on_stats is not None and not callable(self.on_stats):
            faults.append(f"on_stats: {type(self.on_stats).__name__} cannot be called")
        faults += self._spool_faults()
        if not isinstance(self.queue_options, Mapping):
            faults.append(f"queue_options: {type(self.queue_options).__name__} is not a mapping of names to values")
        if not isinstance(self.always_keep_errors, bool):
            faults.append(f"always_keep_errors: {self.always_keep_errors!r:.80} is neither True nor False")
        faults += tag_faults(self.always_keep_tags)
        try:
            _ = self.privacy
        except ConfigError as error:
            faults.append(str(error))
        if faults:
            raise ConfigError("; ".join(faults))

    def _spool_faults(self) -> list[str]:
        faults: list[str] = []
        least, limit = LEAST_SPOOL_BYTES, self.spool_max_bytes
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < least:
            faults.append(f"spool_max_bytes: {limit!r} is not a whole number of at least {least}")
        if self.spool is None:
            return faults
        if not isinstance(self.spool, (str, os.PathLike)) or not os.fspath(self.spool):
            faults.append(f"spool: {self.spool!r:.80} is not the path of a folder")
        elif fault := _folder_fault(Path(self.spool)):
            faults.append(f"spool: {fault}")
        elif not FILE_LOCKS:
            faults.append("spool: needs the file locks of a POSIX system: leave it out here")
        return faults


def _folder_fault(path: Path) -> str | None:
    try:
        if path.exists() and not path.is_dir():
            return f"{str(path)!r} is a file: give a folder, which may be new"
    except OSError as error:  # no right to look, a name too long
        return f"{error}: give a folder this user may write to"
    return None


def settings_from_env(environ: Mapping[str, str], overrides: Mapping[str, Any]) -> ClientSettings:
    """Settings from environment variables; `overrides` win. Raises ConfigError naming every fault.

    TRACEJUDGE_QUEUE and TRACEJUDGE_APP are needed; TRACEJUDGE_ENVIRONMENT, TRACEJUDGE_VERSION,
    TRACEJUDGE_HEAD_PROBABILITY, TRACEJUDGE_QUEUE_OPTIONS (a JSON object), TRACEJUDGE_MAX_QUEUE_RECORDS,
    TRACEJUDGE_MAX_QUEUE_BYTES, TRACEJUDGE_EXIT_TIMEOUT_S, TRACEJUDGE_SPOOL (a folder), TRACEJUDGE_SPOOL_MAX_BYTES,
    TRACEJUDGE_HANDLE_SIGTERM, TRACEJUDGE_STATS_INTERVAL_S, TRACEJUDGE_ENABLED (false: log nothing),
    TRACEJUDGE_ALWAYS_KEEP_ERRORS, TRACEJUDGE_ALWAYS_KEEP_TAGS (a JSON object, {"tier": ["paid"]}), TRACEJUDGE_REDACT
    and TRACEJUDGE_ALLOW_FIELDS (names with commas between), TRACEJUDGE_CAPTURE_TEXT and TRACEJUDGE_HASH_KEY are not.
    A variable that is set to nothing counts as not set. A gateway's key is read by its transport, from
    TRACEJUDGE_INGEST_KEY.
    """
    faults: list[str] = []
    values: dict[str, Any] = {}
    for name, (read, kind) in _READERS.items():
        if name in overrides:
            continue
        variable = PREFIX + name.upper()
        text = environ.get(variable, "").strip()
        if not text:
            continue
        try:
            values[name] = read(text)
        except ValueError:
            # Options hold passwords: their value is not repeated.
            shown = "its value" if name in _SECRETS else repr(text[:80])
            faults.append(f"{variable}: {shown} is not {kind}")
    values.update(overrides)
    enabled = values.get("enabled", True)
    faults += [
        f"{PREFIX}{name.upper()}: is not set (or set {PREFIX}ENABLED=false to log nothing)"
        for name in ("queue", "app")
        if enabled and values.get(name) is None
    ]
    values.setdefault("queue", None)
    if values.get("app") is None:
        values["app"] = "unknown"
    try:
        settings = ClientSettings(**values)
    except ConfigError as error:
        faults.append(str(error))
    if faults:
        raise ConfigError("; ".join(faults))
    return settings


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _bool(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(text)


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


_SECRETS: Final = frozenset(("queue_options", "hash_key"))
_READERS: Final[dict[str, tuple[Any, str]]] = {
    "queue": (str, "a queue URL"),
    "app": (str, "a text"),
    "environment": (str, "a text"),
    "version": (str, "a text"),
    "head_probability": (float, "a number"),
    "queue_options": (_object, "a JSON object"),
    "max_queue_records": (int, "a whole number"),
    "max_queue_bytes": (int, "a whole number"),
    "exit_timeout_s": (float, "a number"),
    "spool": (str, "the path of a folder"),
    "spool_max_bytes": (int, "a whole number"),
    "handle_sigterm": (_bool, "true or false"),
    "stats_interval_s": (float, "a number"),
    "enabled": (_bool, "true or false"),
    "always_keep_errors": (_bool, "true or false"),
    "always_keep_tags": (_object, "a JSON object"),
    "redact": (_names, "names with commas between"),
    "allow_fields": (_names, "names with commas between"),
    "capture_text": (_bool, "true or false"),
    "hash_key": (str, "a text"),
}
