"""Reads records of another format as traces, by the paths of [intake.mapping].

The settings say what a value is, so numbers become texts where a name or an id is meant, and texts that hold a number
become numbers; beyond that nothing is guessed. A field that is not there is left out; a record without the query, or
with a value that cannot be read, is refused with the path in the message. Records of our own form pass as they are, so
that a topic may hold both.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from tracejudge.clock import Clock, SystemClock
from tracejudge_consumer.intake import RawRecord
from tracejudge_consumer.intake.instants import instant_of, plausible
from tracejudge_consumer.intake.mapping_settings import (
    MappingSettings,
    NodesSource,
    TimeSource,
    TurnsSource,
    ValueSource,
)
from tracejudge_consumer.intake.paths import JsonPath, LeadsNowhere, unpacked
from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.trace import SCHEMA_VERSION, Record

_NUMBERS: Final = frozenset({"latency_ms", "head_probability"})
_PROSE: Final = frozenset({"query", "response", "error", "reference"})  # a number here is a mistake of the path
_OFTEN_CONST: Final = frozenset(
    {"app", "environment", "version", "category", "model", "prompt_version", "index_version", "language"}
)
_ABSENT: Final = object()


class ForeignForm:
    """The mapping of the settings, ready to read. A value: nothing changes it.

    `clock` says which times are far in the future, where they are read from a number.
    """

    def __init__(self, settings: MappingSettings, *, clock: Clock | None = None) -> None:
        self.clock = clock = clock or SystemClock()
        self._paths: dict[str, str] = {}
        self._readers: dict[str, Callable[[Any], Any]] = {}
        for name in MappingSettings.model_fields:
            source = getattr(settings, name)
            if isinstance(source, dict):
                if source:
                    self._readers[name] = _tags(
                        {tag: _reader(f"tags.{tag}", one, clock) for tag, one in source.items()}
                    )
                    self._paths[name] = ", ".join(one.path for one in source.values() if one.path is not None)
            elif source is not None:
                if name == "query":
                    source = source.model_copy(update={"required": True})
                self._readers[name] = _reader(name, source, clock)
                self._paths[name] = getattr(source, "path", None) or "a const"

    def nowhere(self, found: Collection[str]) -> dict[str, str]:
        """The fields that the mapping names and that are not among `found`, with what to look at."""
        return {
            name: f"the path {path!r} leads nowhere{_const_hint(name, path)}"
            for name, path in self._paths.items()
            if name not in found
        }

    def values(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The trace fields that the record holds. Raises RecordError `unmapped`, naming field and path."""
        if _is_ours(value):
            return dict(value)
        found = {}
        for name, read in self._readers.items():
            item = read(value)
            if item is not _ABSENT:
                found[name] = item
        return found

    def explain(self, error: RecordError) -> RecordError:
        """The codec's refusal of a mapped record, with the path the value came from."""
        name = (error.field or "").partition(".")[0]
        if name not in self._paths or error.reason == "unmapped":  # it names the path itself
            return error
        path = self._paths[name]
        words = f"{error} (from the path {path!r})"
        if name == "status":
            words += f'; say what their words mean: status = {{ path = {json.dumps(path)}, values = {{ OK = "ok" }} }}'
        if "is missing" in str(error):
            words = f"{error} (the path {path!r} leads nowhere in this record{_const_hint(name, path)})"
        told = RecordError(error.reason, words, field=error.field)
        told.__cause__ = error.__cause__
        return told


class MappedReader:
    """Reads queue records of another form, and what a record of the queue adds where the mapping names nothing.

    app: the name of the queue; event_time: the record's own time; trace_id: "map-" and a hash of the record, so that a
    record delivered again is the same trace; status: ok with a response, else error.
    """

    def __init__(self, form: ForeignForm, *, app: str) -> None:
        self._form = form
        self._app = app

    def __call__(self, raw: RawRecord) -> Record:
        """Raises RecordError, as the codec does and `unmapped`."""
        value = codec.parse(raw.value)
        if not isinstance(value, dict):
            return codec.from_object(value)  # raises, in the codec's words
        try:
            found = self._form.values(value)
        except RecursionError as error:
            raise RecordError("invalid_field", "record is nested too deep: flatten it") from error
        if found.get("kind") is None:
            found["kind"], found["schema_version"] = "trace", SCHEMA_VERSION
            _default(found, "app", self._app)
            _default(found, "trace_id", f"map-{hashlib.sha256(raw.value).hexdigest()[:24]}")
            if found.get("event_time") is None:
                found["event_time"] = self._time_of(raw)
            _default(found, "status", "error" if found.get("response") is None else "ok")
        try:
            return codec.from_object(found)
        except RecordError as error:
            raise self._form.explain(error) from error.__cause__

    def _time_of(self, raw: RawRecord) -> datetime:
        """When the queue says that the record was written: its producer may have set no time, or one in seconds."""
        try:
            return plausible(raw.timestamp_ms, "epoch_ms", self._form.clock.now())
        except ValueError:
            found = "none" if raw.timestamp_ms < 0 else f"{raw.timestamp_ms} ms since 1970"
            words = f"event_time: no path leads to it, and the time that the queue has of the record is {found}"
            remedy = "no time of an answer; map event_time, or correct the timestamps of the producer"
            raise RecordError("unmapped", f"{words}: {remedy}", field="event_time") from None


def _is_ours(value: Mapping[str, Any]) -> bool:
    """Whether a record has our own form. Others have a version and a kind of their own, spans of OpenTelemetry do."""
    return type(value.get("schema_version")) is int and value.get("kind") in ("trace", "part", "feedback")


def _const_hint(name: str, path: str) -> str:
    """Whoever meant the same text for every record wrote it where a path is meant."""
    if name not in _OFTEN_CONST or len(JsonPath.parse(path).steps) > 1:
        return ""
    return f"; if {path} is meant for every record, write {name} = {{ const = {json.dumps(path)} }}"


def _default(found: dict[str, Any], name: str, value: Any) -> None:
    if found.get(name) is None:
        found[name] = value


def _reader(
    name: str, source: ValueSource | TimeSource | NodesSource | TurnsSource, clock: Clock
) -> Callable[[Any], Any]:
    """From a record to the field's value, or _ABSENT."""
    if isinstance(source, ValueSource) and source.path is None:
        const = source.const
        return lambda _: const
    path = JsonPath.parse(source.path or "")
    convert = _converter(name, source, clock)

    def read(record: Any) -> Any:
        try:
            value = path.of(record)
        except LeadsNowhere as error:
            if source.required:
                words = f"{name}: the path {path.text!r} leads nowhere: {error}{_const_hint(name, path.text)}"
                raise RecordError("unmapped", words, field=name) from error
            return _ABSENT
        if value is None:
            if source.required:
                raise RecordError("unmapped", f"{name}: the path {path.text!r} leads to null", field=name)
            return _ABSENT
        try:
            return convert(value)
        except ValueError as error:
            raise RecordError("unmapped", f"{name}: the path {path.text!r} leads to {error}", field=name) from error

    return read


def _converter(
    name: str, source: ValueSource | TimeSource | NodesSource | TurnsSource, clock: Clock
) -> Callable[[Any], Any]:
    if isinstance(source, TimeSource):
        return lambda value: instant_of(value, source, now=clock.now)
    if isinstance(source, NodesSource):
        return _nodes(source)
    if isinstance(source, TurnsSource):
        return _turns(source)

    def convert(value: Any) -> Any:
        if source.values:
            value = source.values.get(value if isinstance(value, str) else json.dumps(value), value)
        if name in _NUMBERS:
            return _number(value, source.scale)
        if name == "expected_ids":
            return [_name(one) for one in value] if isinstance(value, list) else value
        if name.startswith("tags."):
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return value if name in _PROSE else _name(value)

    return convert


def _tags(readers: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def read(record: Any) -> Any:
        found = {tag: one(record) for tag, one in readers.items()}
        return {
            tag: value if isinstance(value, str) else json.dumps(value)
            for tag, value in found.items()
            if value is not _ABSENT
        }

    return read


def _name(value: Any) -> Any:
    """A number as the text of a name or an id; anything else as it is, for the codec to judge."""
    return json.dumps(value) if type(value) in (int, float) else value


def _number(value: Any, scale: float | None) -> Any:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"{value!r:.60}, which is not a number") from None
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r:.60}, which is not a finite number")
    return value if scale is None else value * scale


def _nodes(source: NodesSource) -> Callable[[Any], Any]:
    paths = {name: JsonPath.parse(getattr(source, name)) for name in ("node_id", "text", "score", "metadata")}

    def one(item: Any) -> Any:
        if isinstance(item, dict):
            found = {}
            for name, path in paths.items():
                try:
                    value = path.of(item)
                except LeadsNowhere:
                    continue
                if value is not None:
                    found[name] = _name(value) if name == "node_id" else value
            if isinstance(found.get("score"), str):
                try:
                    found["score"] = _number(found["score"], None)
                except ValueError as error:
                    raise ValueError(f"a passage whose score ({source.score!r}) is {error}") from None
            if "metadata" in found:
                found["metadata"] = unpacked(found["metadata"])
            return found
        if item is None:  # one that lacks what the path goes on to; the others count
            return {}
        if isinstance(item, str) and source.each == "text":
            return {"text": item}
        if isinstance(item, str) or type(item) is int:
            return {"node_id": str(item)}
        raise ValueError(f"a list with {item!r:.60}: passages are objects, ids or texts")

    def read(value: Any) -> Any:
        value = unpacked(value)
        if not isinstance(value, list):
            raise ValueError(f"{value!r:.60}, which is not a list of passages")
        return [one(item) for item in _flat(value)]

    return read


def _flat(items: list[Any]) -> Iterator[Any]:
    """Passages of several retrievals come as a list of lists."""
    for item in items:
        if isinstance(item, list):
            yield from _flat(item)
        else:
            yield item


def _turns(source: TurnsSource) -> Callable[[Any], Any]:
    role, content = JsonPath.parse(source.role), JsonPath.parse(source.content)

    def read(value: Any) -> Any:
        value = unpacked(value)
        if not isinstance(value, list):
            raise ValueError(f"{value!r:.60}, which is not a list of turns")
        try:
            return [{"role": role.of(item), "content": content.of(item)} for item in value]
        except LeadsNowhere as error:
            raise ValueError(f"a turn without role or content: {error}") from None

    return read
