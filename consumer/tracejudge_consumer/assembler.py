"""One trace out of the parts in which it was logged."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from tracejudge_sdk.trace import Trace, TracePart

_OWN: Final = frozenset(
    {"schema_version", "kind", "final", "event_time", "trace_id", "app", "environment", "truncated", "lossy"}
)
_FIELDS: Final = tuple(name for name in TracePart.model_fields if name not in _OWN and name in Trace.model_fields)


def assemble(parts: Sequence[TracePart]) -> Trace | None:
    """The whole trace, or None while it is open: without a final part, or without a query.

    Parts may be given in any order and more than once. A field comes from the latest part (by event time, the final
    one last) that says anything about it; the event time is that of the first final part, so that it stays the same
    however often and with whatever late parts it is assembled again.
    """
    finals = sorted((part for part in parts if part.final), key=lambda part: part.event_time)
    if not finals:
        return None
    values = _values(parts)
    if values.get("query") is None:
        return None
    return _trace(parts, finals[0].event_time, values)


def broken_off(parts: Sequence[TracePart]) -> Trace | None:
    """What there is of a trace whose rest did not come: status incomplete, served when its first part was; None of no
    parts."""
    if not parts:
        return None
    values = {"query": "", **_values(parts), "status": "incomplete"}
    return _trace(parts, min(part.event_time for part in parts), values)


def _values(parts: Sequence[TracePart]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for part in sorted(parts, key=lambda part: (part.final, part.event_time)):
        for name in _FIELDS:
            value = getattr(part, name)
            if value is not None and name in part.model_fields_set:
                values[name] = value
    return values


def _trace(parts: Sequence[TracePart], event_time: datetime, values: dict[str, Any]) -> Trace:
    return Trace(
        trace_id=parts[0].trace_id,
        app=parts[0].app,
        environment=parts[0].environment,
        event_time=event_time,
        truncated=any(part.truncated for part in parts),
        lossy=any(part.lossy for part in parts),
        **values,
    )
