"""An answer that is made on the way to another one: the query of a sub-question, the query inside `@observe`.

What encloses it is offered its source nodes and model, for where it has none of its own. Whether it is a trace of its
own is known only when the enclosing one ends: an answer that is handed on word for word (a router, a condensed
question) is one answer and one trace, that of what encloses it; any other is a trace tagged with `parent_trace_id`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from tracejudge_sdk.capture import capture_nodes
from tracejudge_sdk.fields import text_of
from tracejudge_sdk.recording import TraceRecording


class NestedRecording(TraceRecording):
    """A recording inside `parent`, or inside none. `nested` says whether it is logged where it lies inside one."""

    def __init__(
        self,
        log: Callable[[dict[str, Any]], str],
        fields: dict[str, Any],
        *,
        parent: TraceRecording | None,
        nested: bool,
    ) -> None:
        super().__init__(log, fields)
        self.__dict__.update(_parent=parent, _nested=nested)

    def _deliver(self, logged: dict[str, Any]) -> None:
        parent: TraceRecording | None = self._parent
        if parent is None:
            super()._deliver(logged)
            return
        for inside in self._inside:
            inside(logged)
        # It may wait for a while: what it says must not change, and its time is now.
        logged.setdefault("event_time", datetime.now(timezone.utc))
        logged["source_nodes"] = capture_nodes(logged.get("source_nodes"))
        parent.offer(source_nodes=logged["source_nodes"], model=logged.get("model"))
        if not parent.when_logged(lambda outer: self._decide(logged, outer)):
            self._decide(logged, {"trace_id": parent.trace_id})

    def _decide(self, logged: dict[str, Any], outer: dict[str, Any]) -> None:
        if not self._nested or _same_ending(logged, outer):
            return
        tags = logged.get("tags")
        given = tags if isinstance(tags, Mapping) else {} if tags is None else {"tags": tags}
        logged["tags"] = {**given, "parent_trace_id": outer["trace_id"]}
        self._log(logged)


def _same_ending(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    try:
        return _ending(inner) == _ending(outer)
    except Exception:  # noqa: BLE001 - values of the service may raise anything; then two answers are two
        return False


def _ending(fields: dict[str, Any]) -> tuple[Any, ...]:
    response, _ = text_of(fields.get("response"))
    return (response and response.strip(), fields.get("status", "ok"), fields.get("error"))
