"""One trace out of the parts in which it was logged."""

from __future__ import annotations

from collections.abc import Sequence
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
    final = finals[0]
    values: dict[str, Any] = {}
    for part in sorted(parts, key=lambda part: (part.final, part.event_time)):
        for name in _FIELDS:
            value = getattr(part, name)
            if value is not None and name in part.model_fields_set:
                values[name] = value
    if values.get("query") is None:
        return None
    return Trace(
        trace_id=final.trace_id,
        app=final.app,
        environment=final.environment,
        event_time=final.event_time,
        truncated=any(part.truncated for part in parts),
        lossy=any(part.lossy for part in parts),
        **values,
    )
