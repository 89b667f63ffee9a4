"""Traces to a file of one JSON object a line, as `read_lines` reads them back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

from tracejudge.scores import Label
from tracejudge_sdk.trace import Feedback, Trace, TracePart

# Written even where they are the wire's defaults: the reader would put something else in their place.
_ALWAYS: Final = ("schema_version", "kind", "status", "event_time")


def write_line(out: BinaryIO, record: Trace | TracePart | Feedback, *, labels: Sequence[Label] = ()) -> None:
    """Appends one line. Reading it back gives an equal record, and labels equal in criterion, value and source.

    A label's note and time have no place in the form. Raises ValueError for labels of another trace, of several
    sources, or of anything but a trace.
    """
    value: dict[str, Any] = record.model_dump(mode="json", exclude_defaults=True)
    always = record.model_dump(mode="json", include=set(_ALWAYS))
    line = {name: always[name] for name in _ALWAYS if name in always} | value
    if labels:
        sources = {label.source for label in labels}
        if not isinstance(record, Trace) or any(label.trace_id != record.trace_id for label in labels):
            raise ValueError(f"labels: not all are of trace {record.trace_id!r}")
        if len(sources) > 1:
            raise ValueError(f"labels: {len(sources)} sources on one line: write one line for each")
        line["labels"] = {label.criterion: _value(label.value) for label in labels}
        line["label_source"] = sources.pop()
    out.write(json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n")


def _value(value: float) -> bool | float:
    return bool(value) if value in (0.0, 1.0) else value
