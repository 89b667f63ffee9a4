"""A trace that is logged when a block of code ends, with its duration and how it ended, and the one open right now.

`current_trace()` is what code deep inside an answer uses to add what it alone knows, above all source nodes. It goes
by context variables: tasks and `asyncio.to_thread` see the trace they were started in; a bare thread sees none.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final

from tracejudge_sdk.fields import error_text, first_items, wire_id
from tracejudge_sdk.nodes import MAX_NODES, is_one_node

MOST_KEPT: Final = MAX_NODES + 1
"""Source nodes kept until the trace is logged: with one more than a trace takes it is marked as lossy."""

MOST_INSIDE: Final = 100

_CURRENT: Final[ContextVar[TraceRecording | None]] = ContextVar("tracejudge_current_trace", default=None)


class TraceRecording:
    """What `with client.trace(...) as t:` gives: assign `t.response`, `t.source_nodes` or any other field of `log()`.

    The block's own exception passes through unchanged; the trace then says error, or incomplete where the block was
    cancelled or its generator closed. Nothing here raises.
    """

    def __init__(self, log: Callable[[dict[str, Any]], str], fields: dict[str, Any]) -> None:
        try:
            fields["trace_id"] = wire_id(fields.get("trace_id"))
        except Exception:  # noqa: BLE001 - a foreign __str__ or __eq__ may raise anything, and the block has to run
            fields["trace_id"] = wire_id(None)
        # Into __dict__, because assignment to an attribute sets a field.
        self.__dict__.update(
            _log=log,
            _fields=fields,
            _added=[],
            _offered={},
            _inside=[],
            _around=current_trace(),
            _started=time.perf_counter(),
            _token=None,
            _finished=False,
            _pid=os.getpid(),
        )

    @property
    def trace_id(self) -> str:
        """The id the trace is logged under, known before it is logged."""
        return str(self._fields["trace_id"])

    def set(self, **fields: Any) -> None:
        """Sets several fields at once."""
        self._fields.update(fields)

    def add_source_nodes(self, nodes: Any) -> None:
        """Adds source nodes behind those the trace has: one or several, in any form that `log()` takes."""
        with contextlib.suppress(Exception):  # even the class of a foreign object may be a property that raises
            self._added.extend(first_items(_listed(nodes), most=MOST_KEPT - len(self._added))[0])

    def offer(self, *, source_nodes: Iterable[Any] = (), **fields: Any) -> None:
        """Values for fields that nobody else says anything about when the trace ends; source nodes add up."""
        offered: dict[str, Any] = self._offered
        before = offered.get("source_nodes", [])
        if nodes := first_items(source_nodes, most=MOST_KEPT - len(before))[0]:
            offered["source_nodes"] = before + nodes
        offered.update({name: value for name, value in fields.items() if value is not None})

    def offered(self, name: str) -> bool:
        """Whether a value for the field was offered."""
        return name in self._offered

    def when_logged(self, inside: Callable[[dict[str, Any]], None]) -> bool:
        """Calls `inside` with the fields of this trace when it is logged; False when that was already, or when
        `MOST_INSIDE` wait for it: one open around a whole batch must not hold all of its answers in memory."""
        if self._finished or len(self._inside) >= MOST_INSIDE:
            return False
        self._inside.append(inside)
        return True

    def says(self, name: str) -> bool:
        """Whether the field was set, or source nodes were added."""
        return self._fields.get(name) is not None or (name == "source_nodes" and bool(self._added))

    def current(self) -> Current:
        """While a `with` block of it runs, `current_trace()` gives this one, in this context."""
        return Current(self)

    def finish(self, error: BaseException | None = None, **fields: Any) -> None:
        """Logs the trace with `fields` where they are not set yet; only the first call of several does anything."""
        state = self.__dict__
        if state["_finished"] or state["_pid"] != os.getpid():
            return  # in a forked child it is a copy: the answer is still its parent's
        state["_finished"] = True
        state["_around"] = None  # traces that were opened inside each other one after the other must not hang together
        logged: dict[str, Any] = dict(self._fields)
        logged.update({name: value for name, value in fields.items() if value is not None and not self.says(name)})
        if self._added:
            self.__dict__["_added"], added = [], self._added
            self.add_source_nodes(logged.get("source_nodes"))
            logged["source_nodes"] = [*self._added, *added]
        for name, value in self._offered.items():
            if logged.get(name) is None:
                logged[name] = value
        logged.setdefault("latency_ms", (time.perf_counter() - self._started) * 1000)
        if error is not None:
            # Cancelled tasks, closed generators and the end of the process are no Exception.
            logged.setdefault("status", "error" if isinstance(error, Exception) else "incomplete")
            logged.setdefault("error", error_text(error))
        try:
            self._deliver(logged)
        except Exception:  # noqa: BLE001 - values of the service may raise anything; `log` itself never does
            self._log(logged)

    def _deliver(self, logged: dict[str, Any]) -> None:
        for inside in self._inside:
            inside(logged)
        self._log(logged)

    def __setattr__(self, name: str, value: Any) -> None:
        self._fields[name] = value

    def __getattr__(self, name: str) -> Any:
        # Only called for what is no attribute: a field that was set, or None.
        return self.__dict__.get("_fields", {}).get(name)

    def __enter__(self) -> TraceRecording:
        self.__dict__["_started"] = time.perf_counter()
        self.__dict__["_token"] = _CURRENT.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        token = self.__dict__["_token"]
        if token is not None:
            _leave(token)
        self.finish(error)


def current_trace_of(log: Callable[[dict[str, Any]], str]) -> TraceRecording | None:
    """The innermost open trace that is logged by `log`: where two clients listen, each has traces of its own."""
    recording = current_trace()
    while recording is not None and recording.__dict__["_log"] != log:
        recording = recording.__dict__["_around"]
    return recording


class Current:
    """A block in which a trace is the current one."""

    __slots__ = ("_recording", "_token")

    def __init__(self, recording: TraceRecording) -> None:
        self._recording = recording

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._recording)

    def __exit__(self, *exception: object) -> None:
        _leave(self._token)


def current_trace() -> TraceRecording | None:
    """The innermost trace that is open in this context: of `client.trace()`, of `@observe`, or None.

    if (t := current_trace()) is not None: t.add_source_nodes(passages)
    """
    recording = _CURRENT.get()
    return None if recording is None or recording.__dict__["_finished"] else recording


def _leave(token: Token[TraceRecording | None]) -> None:
    # A block that is left in another context than it was entered in (a generator moved to another task) has nothing
    # to take back there.
    try:  # noqa: SIM105 - a third of the time of contextlib.suppress, on every call of an observed function
        _CURRENT.reset(token)
    except ValueError:
        pass


def _listed(nodes: Any) -> Any:
    if nodes is None:
        return ()
    if isinstance(nodes, Mapping) or (not isinstance(nodes, (list, tuple)) and is_one_node(nodes)):
        return (nodes,)
    return nodes
