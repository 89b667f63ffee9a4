"""Traces from a file of one JSON object a line: the wire contract, completed by documented defaults.

A line may lack what a service would have sent; a null counts as lacking:

| field          | default                                                                     |
|----------------|-----------------------------------------------------------------------------|
| schema_version | 1                                                                           |
| kind           | trace                                                                       |
| app            | the `app` given to the reader                                               |
| trace_id       | "line-", a hash of the line, "-" and its number                             |
| source_nodes   | a passage that is a plain text becomes a node with that text                |
| event_time     | by the given EventTimes, or the file's modification time, see `file_times`  |
| status         | ok with a response (an empty one too), else error                           |

and carry beside it `labels` with `label_source`, and `metadata` (see `flatten`). All of this is a function of the
file's content and modification time, so that a file read twice gives the same records.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final, Protocol

from tracejudge.datasets.flatten import label_values, with_tags
from tracejudge.datasets.lines import BrokenLine, EventTimes, Line, RecordLine
from tracejudge.datasets.raw import MAX_LINE_BYTES, RawLine, raw_lines
from tracejudge.scores import Label
from tracejudge_sdk.codec import from_object, parse
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.trace import SCHEMA_VERSION, Trace

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MAX_CRITERION_CHARS: Final = 256


class LineForm(Protocol):
    """Reads lines of another format: gives the fields of a dataset line that such a line holds."""

    def values(self, value: dict[str, Any], /) -> dict[str, Any]:
        """The fields of a dataset line. Raises RecordError."""
        ...

    def explain(self, error: RecordError, /) -> RecordError:
        """Words the refusal of such a line, naming the path at which the value was found."""
        ...


def read_lines(
    path: Path | str,
    *,
    app: str | None = None,
    event_time: EventTimes | None = None,
    form: LineForm | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Line | RecordLine | BrokenLine]:
    """What the lines of the file hold, in order, in the memory of one line; blank lines are left out.

    `app` and `event_time` are for lines that carry none; `form` reads lines of another form than ours. Raises OSError,
    at the first line, when the file cannot be opened; a line that cannot be read is a BrokenLine and stops nothing.
    """
    path = Path(path)
    with path.open("rb") as file:
        if event_time is None:
            event_time = file_times(path.stat().st_mtime_ns)
        yield from read_stream(file, app=app, event_time=event_time, form=form, max_line_bytes=max_line_bytes)


def read_stream(
    stream: io.BufferedReader,
    *,
    event_time: EventTimes,
    app: str | None = None,
    form: LineForm | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Line | RecordLine | BrokenLine]:
    """Reads lines as `read_lines` does, from an open stream of bytes, which has no modification time."""
    for raw in raw_lines(stream, max_line_bytes=max_line_bytes):
        yield _read(raw, app=app, event_time=event_time, form=form)


def file_times(mtime_ns: int) -> EventTimes:
    """The default event times of a file: its modification time plus the line number in milliseconds."""
    step = timedelta(milliseconds=1)
    return EventTimes(first=_EPOCH + timedelta(milliseconds=mtime_ns // 1_000_000) + step, step=step)


def _read(
    raw: RawLine, *, app: str | None, event_time: EventTimes, form: LineForm | None
) -> Line | RecordLine | BrokenLine:
    number, data, reason, detail = raw
    if reason:
        return BrokenLine(number=number, raw=data, reason=reason, detail=detail)
    try:
        value = parse(data)
        if not isinstance(value, dict):
            from_object(value)  # raises, in the codec's words
        if form is not None:
            value = form.values(value)
        return _record(number, _with_id(number, value, data), app=app, event_time=event_time)
    except RecordError as error:
        told = error if form is None else form.explain(error)
        return BrokenLine(number=number, raw=data, reason=told.reason, detail=str(told))
    except RecursionError:
        return BrokenLine(number=number, raw=data, reason="invalid_field", detail="line is nested too deep: flatten it")


def read_object(
    number: int, value: dict[str, Any], *, app: str | None, event_time: EventTimes
) -> Line | RecordLine | BrokenLine:
    """Reads the JSON object on line `number` of a file."""
    data = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str).encode()
    try:
        return _record(number, _with_id(number, value, data), app=app, event_time=event_time)
    except RecordError as error:
        return BrokenLine(number=number, raw=data, reason=error.reason, detail=str(error))


def _with_id(number: int, value: dict[str, Any], data: bytes) -> dict[str, Any]:
    if value.get("trace_id") is None and value.get("kind") in (None, "trace"):
        return {**value, "trace_id": f"line-{hashlib.sha256(data).hexdigest()[:20]}-{number}"}
    return value


def _record(number: int, value: dict[str, Any], *, app: str | None, event_time: EventTimes) -> Line | RecordLine:
    value = {**value}
    labels, source = value.pop("labels", None), value.pop("label_source", None)
    metadata = value.pop("metadata", None)
    _default(value, "schema_version", SCHEMA_VERSION)
    _default(value, "kind", "trace")
    _default(value, "app", app)
    if value["app"] is None:
        raise RecordError("invalid_field", "app: is missing: write it on the line, or name one with --app", field="app")
    if value.get("event_time") is None:
        value["event_time"] = _event_time(number, event_time)
    if value["kind"] == "trace":
        nodes = value.get("source_nodes")
        if isinstance(nodes, list):
            value["source_nodes"] = [{"text": node} if isinstance(node, str) else node for node in nodes]
        _default(value, "status", "error" if value.get("response") is None else "ok")
        labels = _checked_labels(labels)
        tags = value.get("tags")
        if tags is None or isinstance(tags, dict):  # anything else is for the codec to refuse
            value["tags"] = with_tags(tags or {}, metadata=metadata, labels=labels)
    record = from_object(value)
    if not isinstance(record, Trace):
        return RecordLine(number=number, record=record)
    return Line(number=number, trace=record, labels=_labels(record, labels, source))


def _default(value: dict[str, Any], field: str, default: Any) -> None:
    if value.get(field) is None:
        value[field] = default


def _event_time(number: int, event_time: EventTimes) -> datetime:
    try:
        return event_time.of_line(number)
    except OverflowError:
        raise RecordError(
            "invalid_field",
            f"event_time: line {number} lies beyond the calendar: take a smaller step",
            field="event_time",
        ) from None


def _checked_labels(labels: Any) -> dict[str, Any]:
    if labels is None:
        return {}
    if not isinstance(labels, dict):
        raise RecordError("invalid_field", 'labels: is not an object: write {"faithfulness": true}', field="labels")
    if any(not 0 < len(name) <= _MAX_CRITERION_CHARS for name in labels):
        raise RecordError(
            "invalid_field", f"labels: a criterion's name has 1 to {_MAX_CRITERION_CHARS} characters", field="labels"
        )
    return labels


def _labels(trace: Trace, labels: dict[str, Any], source: Any) -> tuple[Label, ...]:
    # The file does not say when somebody judged: the trace's own time is the only one that a second reading repeats.
    return tuple(
        Label(
            environment=trace.environment,
            app=trace.app,
            trace_id=trace.trace_id,
            criterion=criterion,
            value=number,
            source="" if source is None else str(source),
            labelled_at=trace.event_time,
        )
        for criterion, number in label_values(labels).items()
    )
