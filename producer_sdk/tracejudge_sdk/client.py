"""The hook in the service: `log()` takes a snapshot, puts it into the outbox and returns.

It never waits and never raises. A thread of its own, started by the first trace, builds the records and sends them
(`sender`); what cannot be sent is counted by reason (`stats`). What is promised at which stage: producer_sdk/DESIGN.md.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, cast, overload

from tracejudge_sdk import codec, endings, forks
from tracejudge_sdk.account import ClientStats
from tracejudge_sdk.building import to_feedback, to_trace
from tracejudge_sdk.capture import Snapshot, capture
from tracejudge_sdk.config import (
    DEFAULT_QUEUE_BYTES,
    DEFAULT_QUEUE_RECORDS,
    DEFAULT_SPOOL_BYTES,
    ClientSettings,
    settings_from_env,
)
from tracejudge_sdk.delivery import SendPolicy
from tracejudge_sdk.errors import ConfigError
from tracejudge_sdk.fields import wire_id
from tracejudge_sdk.head import HeadSampling, TagRules
from tracejudge_sdk.ids import new_trace_id
from tracejudge_sdk.observe import Function, observe
from tracejudge_sdk.outbox import Outbox, Pending
from tracejudge_sdk.pipeline import Pipeline, load
from tracejudge_sdk.plain import plain_encoder
from tracejudge_sdk.recording import TraceRecording
from tracejudge_sdk.redact import Hook
from tracejudge_sdk.sender import Encoded
from tracejudge_sdk.steps import RecordStep, run_steps
from tracejudge_sdk.trace import DEFAULT_ENVIRONMENT, Record, Trace
from tracejudge_sdk.transports import Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tracejudge_sdk.fields import TraceFields

_POSITIONAL: Final = ("query", "response", "source_nodes")


class TraceClient:
    """Logs served answers to a queue. Safe for threads and across fork; make one a process, at its start.

    Raises ConfigError for settings that cannot work; never connects here, so a queue that is down delays nothing.
    The settings are those of `ClientSettings`. `transport` replaces the queue, for tests.
    """

    _pipeline: Pipeline
    _outbox: Outbox

    def __init__(
        self,
        queue: str | None = None,
        *,
        app: str,
        environment: str = DEFAULT_ENVIRONMENT,
        version: str = "",
        head_probability: float = 1.0,
        always_keep_errors: bool = True,
        always_keep_tags: TagRules | None = None,
        queue_options: Mapping[str, Any] | None = None,
        max_queue_records: int = DEFAULT_QUEUE_RECORDS,
        max_queue_bytes: int = DEFAULT_QUEUE_BYTES,
        exit_timeout_s: float = 5.0,
        enabled: bool = True,
        redact: Sequence[Hook | str] = (),
        allow_fields: Collection[str] | None = None,
        capture_text: bool = True,
        hash_key: str | None = None,
        spool: str | os.PathLike[str] | None = None,
        spool_max_bytes: int = DEFAULT_SPOOL_BYTES,
        handle_sigterm: bool = False,
        on_stats: Callable[[ClientStats], object] | None = None,
        stats_interval_s: float = 60.0,
        transport: Transport | None = None,
        policy: SendPolicy | None = None,
    ) -> None:
        self.settings = ClientSettings(
            queue=queue,
            app=app,
            environment=environment,
            version=version,
            head_probability=head_probability,
            always_keep_errors=always_keep_errors,
            always_keep_tags=always_keep_tags or {},
            queue_options=queue_options or {},
            max_queue_records=max_queue_records,
            max_queue_bytes=max_queue_bytes,
            exit_timeout_s=exit_timeout_s,
            enabled=enabled,
            redact=redact,
            allow_fields=allow_fields,
            capture_text=capture_text,
            hash_key=hash_key,
            spool=spool,
            spool_max_bytes=spool_max_bytes,
            handle_sigterm=handle_sigterm,
            on_stats=on_stats,
            stats_interval_s=stats_interval_s,
        )
        if self.settings.enabled and queue is None and transport is None:
            raise ConfigError("queue: is missing: give a queue URL such as sqlite:///queue.db")
        self._policy = policy or SendPolicy()
        self._given_transport = transport
        self._defaults = {
            "app": self.settings.app,
            "environment": self.settings.environment,
            "version": self.settings.version,
        }
        head = HeadSampling(head_probability, always_keep_errors, self.settings.always_keep_tags)
        self._head = head if head_probability < 1.0 else None
        self.steps: tuple[RecordStep, ...] = self.settings.privacy.steps()
        """What happens to each record before it is encoded; set before the first trace."""
        self._plain = plain_encoder(self._defaults)
        self._close_lock = threading.RLock()
        self._closed_clean: bool | None = None
        load(self.settings)
        endings.register(self)
        if handle_sigterm:
            endings.register_sigterm(self)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> TraceClient:
        """A client from TRACEJUDGE_QUEUE, TRACEJUDGE_APP and others, see `config.settings_from_env`.

        Raises ConfigError naming every variable that is missing or cannot work.
        """
        transport, policy = overrides.pop("transport", None), overrides.pop("policy", None)
        if transport is not None:
            overrides.setdefault("queue", "memory://given")
        settings = settings_from_env(os.environ if environ is None else environ, overrides)
        return cls(transport=transport, policy=policy, **vars(settings))

    # -- logging ---------------------------------------------------------------------------------------------------

    def log(self, /, *positional: Any, **fields: Unpack[TraceFields]) -> str:
        """Logs one served answer and gives its trace id; `fields.TraceFields` lists the keywords.

        Values without a keyword are taken as query, response and source_nodes, in this order: a call that is written
        differently from what is expected here must not end a request with a TypeError.

        Never waits and never raises: what cannot be sent is dropped and counted in `stats()`. Values may be whatever
        the service has at hand; `nodes` and `fields` say how they are read. They may be changed afterwards.
        """
        # All in one function: this runs in the request's own time, where each call counts.
        if positional:
            fields = {**dict(zip(_POSITIONAL, positional, strict=False)), **fields}  # type: ignore[typeddict-item]
        given: Any = fields  # a dict of its own: no copy needed
        trace_id = ""
        try:
            time_ms = time.time_ns() // 1_000_000
            given_id = given.pop("trace_id", None)
            trace_id = new_trace_id(time_ms) if given_id is None else wire_id(given_id)
            probability = 1.0
            if self._head is not None:
                decided = self._head.decide(trace_id, given)
                if decided is None:
                    self._outbox.sampled_out()
                    return trace_id
                probability = decided
            if self._outbox.put(capture(given, trace_id, time_ms, probability)):
                self._wake()
        except Exception:  # noqa: BLE001 - the service's request goes on whatever is wrong here
            self._outbox.lost("internal_error")
        return trace_id or new_trace_id()

    def log_trace(self, trace: Trace) -> str:
        """Logs a Trace and returns its id. Head sampling applies unless its `head_probability` is below 1 already."""
        trace_id = ""
        try:
            trace_id = trace.trace_id
            if trace.head_probability == 1.0 and self._head is not None:
                probability = self._head.decide(trace.trace_id, vars(trace))
                if probability is None:
                    self._outbox.sampled_out()
                    return trace.trace_id
                trace = trace.model_copy(update={"head_probability": probability})
            if self._outbox.put(Pending(trace, _size_of(trace))):
                self._wake()
        except Exception:  # noqa: BLE001 - the service's request goes on whatever is wrong here
            self._outbox.lost("internal_error")
        return trace_id

    def feedback(
        self,
        trace_id: str,
        value: float | bool | None = None,
        comment: str | None = None,
        *,
        feedback_id: str | None = None,
        event_time: datetime | None = None,
    ) -> str:
        """Logs a person's feedback on an answer (thumbs are 1 and 0, or a bool) and returns the feedback's id.

        Feedback with the same `feedback_id` replaces the earlier one. Never waits, never raises; feedback is not
        sampled.
        """
        given_id = ""
        try:
            given_id = wire_id(feedback_id)
            record = to_feedback(
                feedback_id=given_id,
                trace_id=wire_id(trace_id),
                value=value,
                comment=comment,
                event_time=event_time or datetime.now(timezone.utc),
                defaults=self._defaults,
            )
            if self._outbox.put(Pending(record, 1000 + sys.getsizeof(record.comment))):
                self._wake()
        except Exception:  # noqa: BLE001 - the service's request goes on whatever it handed in
            self._outbox.lost("invalid")
        return given_id

    def trace(self, **fields: Unpack[TraceFields]) -> TraceRecording:
        """`with client.trace(query=...) as t:` logs when the block ends, with its duration and how it ended."""
        return TraceRecording(self._log, cast("dict[str, Any]", fields))

    @overload
    def observe(self, function: Function, /) -> Function: ...

    @overload
    def observe(self, function: None = None, /, **rules: Any) -> Callable[[Function], Function]: ...

    def observe(self, function: Callable[..., Any] | None = None, /, **rules: Any) -> Any:
        """`@client.observe` or `@client.observe(query=..., ...)`: `tracejudge_sdk.observe` that logs to this client."""
        decorate = observe(client=self, **rules)
        return decorate if function is None else decorate(function)

    # -- ending ----------------------------------------------------------------------------------------------------

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Waits until everything logged so far is sent (or dropped); False when `timeout_s` seconds were not enough."""
        return self._pipeline.flush(timeout_s)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Sends what is queued, for at most `timeout_s` seconds, and stops.

        False when something was left, which is counted as unsent_at_close. What is logged later is dropped and counted
        as closed. May be called twice, from any thread.
        """
        with self._close_lock:
            if self._closed_clean is None:
                self._closed_clean = self._pipeline.close(timeout_s)
            return self._closed_clean

    def stats(self) -> ClientStats:
        """The account of everything logged so far."""
        return self._outbox.stats()

    def __enter__(self) -> TraceClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close(self.settings.exit_timeout_s)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _log(self, fields: dict[str, Any]) -> str:
        return self.log(**fields)

    def _wake(self) -> None:
        if self._pipeline.wake():
            endings.register_worker(self)

    if not TYPE_CHECKING:  # where it would hide misspelt names

        def __getattr__(self, name: str) -> Any:
            """Makes the pipeline when it is first needed, in each process: a service may replace the locks and threads
            of the standard library after it made the client, and after a fork (gevent's workers do)."""
            if name not in ("_pipeline", "_outbox"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            made = Pipeline(self.settings, self._policy, encode=self._encode, transport=self._given_transport)
            if self._closed_clean is not None:
                made.outbox.refuse("closed")
            # Of several threads that make one, and signal handlers between, the first to get here wins.
            self._outbox = self.__dict__.setdefault("_pipeline", made).outbox
            return self.__dict__[name]

    def _encode(self, item: Snapshot | Pending, max_bytes: int) -> Encoded:
        if self._plain is not None and not self.steps and isinstance(item, Snapshot):
            found = self._plain(item)
            if found is not None and len(found[0]) <= max_bytes:
                return Encoded(item.trace_id, found[0], truncated=False, lossy=found[1])
        with forks.GATE:  # pydantic's own locks
            record: Record = to_trace(item, self._defaults) if isinstance(item, Snapshot) else item.record
            if self.steps:
                record = run_steps(self.steps, record, self._outbox.note)
            encoding = codec.encode_and_tell(record, max_bytes=max_bytes)
        return Encoded(
            record.trace_id,
            encoding.data,
            truncated=encoding.cut or getattr(record, "truncated", False),
            lossy=getattr(record, "lossy", False),
        )

    # -- what a process's end and forks ask for (`endings.Ending`) -----------------------------------------------------

    def close_at_exit(self) -> None:
        """Closes within `exit_timeout_s`; the process's end calls it."""
        self.close(self.settings.exit_timeout_s)

    def flush_before_end(self) -> None:
        """Flushes within `exit_timeout_s`, for a signal after which the service may go on for a while.

        What is logged from then on is sent at once, because some servers end without running exit handlers.
        """
        self._outbox.hurry()
        self.flush(self.settings.exit_timeout_s)

    def after_fork_in_child(self) -> None:
        """Starts anew with an empty queue; called in the child of a fork. What was queued is sent by the parent."""
        if "_pipeline" in self.__dict__:
            _NOT_OURS.extend(self.__dict__.pop("_pipeline").forget())
            self.__dict__.pop("_outbox", None)
        self._close_lock = threading.RLock()


# Keeps the parent's transports from being collected in a forked child: closing them would use the parent's connections.
_NOT_OURS: Final[list[object]] = []


def _size_of(trace: Trace) -> int:
    texts = [trace.query, trace.response or "", trace.reference or "", trace.error or ""]
    texts += [node.text or "" for node in trace.source_nodes]
    texts += [turn.content for turn in trace.history]
    return 2000 + 600 * len(trace.source_nodes) + sum(map(sys.getsizeof, texts))
