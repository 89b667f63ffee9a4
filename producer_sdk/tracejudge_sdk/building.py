"""Builds a record from the snapshot of a `log()` call, in the sending thread.

The caller has returned and cannot be told of a mistake. So values that the wire contract would refuse are mended where
that takes no guess, and the record is marked: `truncated` for what was shortened, `lossy` for everything else.

* names above 256 characters are cut; lone surrogates become U+FFFD
* an event time without a zone is read as UTC, so that the result does not depend on where the service runs
* an unknown status, and keywords that the contract does not know, become tags
* a latency that is no number >= 0, and any other optional value of a wrong type, is left out; a missing query is ""
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final

from pydantic import ValidationError

from tracejudge_sdk._version import SDK_NAME
from tracejudge_sdk.capture import Snapshot, read_captured
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.fields import NAMES, TEXT_FIELDS
from tracejudge_sdk.json_values import coerce_json, scrub_surrogates, scrub_text
from tracejudge_sdk.notices import warn
from tracejudge_sdk.trace import MAX_NAME_CHARS, Feedback, Trace

_KNOWN: Final = (
    TEXT_FIELDS | NAMES | {"case_id", "status", "history", "expected_ids", "latency_ms", "tags", "event_time"}
)
_warned: set[str] = set()
_MOST_WARNINGS: Final = 20
_STATUSES: Final = ("ok", "error", "incomplete")


def to_trace(snapshot: Snapshot, defaults: Mapping[str, str]) -> Trace:
    """The Trace of a snapshot; `defaults` hold app, environment and version. Raises RecordError for what cannot be
    mended."""
    nodes, nodes_lossy = read_captured(snapshot.nodes)
    fields = _assemble(snapshot, snapshot.fields, defaults)
    fields["source_nodes"] = [node._asdict() for node in nodes]
    fields["lossy"] = snapshot.lossy or nodes_lossy
    if _KNOWN.issuperset(snapshot.fields):
        try:
            return Trace.model_validate(fields)
        except ValidationError:
            pass
    mended, truncated = _mend(snapshot.fields)
    fields = _assemble(snapshot, mended, defaults)
    fields["source_nodes"] = [
        {**scrub_surrogates(node._asdict()), "metadata": coerce_json(node.metadata)[0]} for node in nodes
    ]
    fields["lossy"], fields["truncated"] = True, truncated
    return _without_refused(fields)


def to_feedback(
    *,
    feedback_id: str,
    trace_id: str,
    value: float | bool | None,
    comment: str | None,
    event_time: datetime,
    defaults: Mapping[str, str],
) -> Feedback:
    """The Feedback record; a value that is NaN or infinite is left out. Raises ValueError for a value that is no number
    and for fields that the contract refuses."""
    number = None if value is None else float(value)
    return Feedback(
        feedback_id=feedback_id,
        trace_id=trace_id,
        app=defaults["app"],
        environment=defaults["environment"],
        value=number if number is not None and math.isfinite(number) else None,
        comment=None if comment is None else scrub_text(str(comment)),
        event_time=event_time if event_time.tzinfo is not None else event_time.replace(tzinfo=timezone.utc),
        sdk=SDK_NAME,
    )


def _assemble(snapshot: Snapshot, fields: Mapping[str, Any], defaults: Mapping[str, str]) -> dict[str, Any]:
    return {
        "event_time": datetime.fromtimestamp(snapshot.time_ms / 1000, timezone.utc),
        **defaults,
        # None says the same as nothing, also where the contract has no null.
        **{name: value for name, value in fields.items() if value is not None},
        "trace_id": snapshot.trace_id,
        "head_probability": snapshot.head_probability,
        "sdk": SDK_NAME,
    }


def _mend(fields: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    mended: dict[str, Any] = {"query": ""}
    tags: dict[str, str] = {}
    truncated = False
    for name, given in fields.items():
        value = scrub_surrogates(given)
        if value is None or (name in ("app", "environment") and value == ""):
            continue
        if name not in _KNOWN or (name == "status" and value not in _STATUSES):
            tags[name] = _as_text(value)
            if name not in _KNOWN:
                _warn_of(name, several=isinstance(given, Mapping))
        elif name in NAMES:
            text = _as_text(value)
            truncated = truncated or len(text) > MAX_NAME_CHARS
            mended[name] = text[:MAX_NAME_CHARS]
        elif name in TEXT_FIELDS or name == "case_id":
            mended[name] = _as_text(value)
        elif name == "latency_ms":
            mended[name] = _milliseconds(value)
        elif name == "event_time":
            instant = _instant(value)
            if instant is not None:
                mended[name] = instant
        elif name == "expected_ids" and isinstance(value, str):
            mended[name] = [value]
        elif name == "history" and isinstance(value, str):
            mended[name] = [{"role": "user", "content": value}]
        elif name == "tags":
            tags = {**(value if isinstance(value, dict) else {"tags": _as_text(value)}), **tags}
        else:
            mended[name] = value
    mended["tags"] = tags
    return mended, truncated


def _without_refused(fields: dict[str, Any]) -> Trace:
    try:
        return Trace.model_validate(fields)
    except ValidationError as error:
        refused = {str(fault["loc"][0]) for fault in error.errors(include_url=False, include_input=False)}
    try:
        return Trace.model_validate({name: value for name, value in fields.items() if name not in refused})
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = str(fault["loc"][0])
        # Without the value, which may be somebody's text, and so without the exception that holds it.
        raise RecordError("invalid_field", f"{field}: {fault['msg']}", field=field) from None


def _instant(value: Any) -> datetime | None:
    """The instant meant by a datetime or a text, UTC where it names no zone; None leaves the time of logging."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)


def _warn_of(name: str, *, several: bool) -> None:
    """Warns once of a keyword that the contract does not know: a service may be logging answers under a wrong name, or
    many values in one text by which nothing can be sliced."""
    if name not in _warned and len(_warned) < _MOST_WARNINGS:
        _warned.add(name)
        remedy = (
            "give what is to be sliced by as tags={name: value}, and what belongs to a passage as its node's metadata"
            if several
            else "check for a typo"
        )
        kept = "all of it as one tag" if several else "it as a tag"
        warn("tracejudge: log() knows no field %r and keeps %s; %s", name[:80], kept, remedy)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(coerce_json(value)[0], ensure_ascii=False)


def _milliseconds(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None
