"""A body into lines, and each line into a record or what is wrong with it: pure, and done away from the event loop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tracejudge_consumer.contract import Fault, faults_of, too_large
from tracejudge_consumer.gateway.answers import Refusal
from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.json_values import scrub_surrogates

BodyKind = Literal["json", "lines"]

CONTENT_TYPES: Final[dict[str, BodyKind]] = {
    "application/json": "json",
    "application/x-ndjson": "lines",
    "application/ndjson": "lines",
    "application/jsonl": "lines",
    "application/x-jsonlines": "lines",
    "application/json-lines": "lines",
}
"""None of them can a web page send without asking first, which we never answer (see `admission`)."""

MAX_DOCUMENT_BYTES: Final = 8_000_000
"""A document is parsed whole, into objects of several times its size; lines are parsed one at a time."""

_LINES_A_RECORD: Final = 10
"""Blank ones among them."""

_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ReadLine:
    """One line that was looked at: bytes for the queue, or the faults for which it is refused."""

    number: int
    trace_id: str | None
    data: bytes
    faults: tuple[Fault, ...] = ()


def read_lines(body: bytes, kind: BodyKind, *, max_lines: int, max_record_bytes: int) -> list[ReadLine]:
    """Every line of the body. Raises Refusal when there is none, or too many, or it is no JSON at all.

    `json` is one object, or an array of them; text that is neither but begins with a line of JSON is read as lines.
    What goes to the queue are the bytes as they came: fields that a newer consumer knows pass through an older gateway.
    """
    pieces = _objects(body) if kind == "json" else None
    found: list[ReadLine] = []
    for number, data in _lines(body) if pieces is None else pieces:
        # Blank lines are none, but not without end: a megabyte of them packs into a kilobyte.
        if len(found) >= max_lines or number > _LINES_A_RECORD * max_lines:
            raise Refusal(
                413,
                reason="too_many_lines",
                field="body",
                value=f"more than {max_lines} lines",
                limit=f"{max_lines} lines",
                remedy="send them in several requests",
            )
        if not data:
            continue
        found.append(_read(number, data, max_record_bytes))
    if not found:
        raise Refusal(
            400,
            reason="empty",
            field="body",
            value=f"{len(body)} bytes without a record",
            limit="at least one record",
            remedy="send one JSON object a line",
        )
    return found


def _lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbers and lines, blank ones included."""
    start, number = 0, 0
    body = body.removeprefix(_BOM)
    while start <= len(body):
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        number += 1
        yield number, body[start:end].strip(b" \t\r")
        start = end + 1


def _objects(body: bytes) -> Iterator[tuple[int, bytes]] | None:
    """The objects of a JSON document; None when it is to be read as lines after all."""
    body = body.removeprefix(_BOM)
    if len(body) > MAX_DOCUMENT_BYTES:
        if _begins_with_a_line(body):
            return None
        raise Refusal(
            413,
            reason="document_too_large",
            field="body",
            value=f"a JSON document of {len(body)} bytes",
            limit=f"{MAX_DOCUMENT_BYTES} bytes in one document",
            remedy="send one JSON object a line, as application/x-ndjson",
        )
    try:
        value = codec.parse(body)
    except RecordError as error:
        if _begins_with_a_line(body):
            return None  # JSONL under the type of JSON, as many clients send it
        fault = faults_of(error)[0]
        raise Refusal(
            400, reason=fault.reason, field="body", value=fault.value, limit=fault.limit, remedy=fault.remedy
        ) from error
    if not isinstance(value, list):
        return iter([(1, body.strip())])
    return ((number, _encoded(one)) for number, one in enumerate(value, 1))


def _begins_with_a_line(body: bytes) -> bool:
    head = body.lstrip()[:MAX_DOCUMENT_BYTES].partition(b"\n")[0]
    return isinstance(_parsed(head), dict)


def _encoded(value: object) -> bytes:
    try:
        try:
            return _dumped(value)
        except UnicodeEncodeError:
            return _dumped(scrub_surrogates(value))
    except RecursionError:
        raise Refusal(
            400,
            reason="nested_too_deep",
            field="body",
            value="an array with an element nested too deep",
            limit="what a JSON library accepts",
            remedy="flatten its metadata",
        ) from None


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _parsed(data: bytes) -> object:
    try:
        return codec.parse(data)
    except RecordError:
        return None


def _read(number: int, data: bytes, max_record_bytes: int) -> ReadLine:
    if len(data) > max_record_bytes:
        return ReadLine(number, None, b"", (too_large(len(data), max_record_bytes),))
    try:
        record = codec.decode(data)
    except RecordError as error:
        return ReadLine(number, None, b"", faults_of(error, _parsed(data)))
    return ReadLine(number, record.trace_id, data)
