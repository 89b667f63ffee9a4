"""A file of records looked at line by line: what another producer does wrong, and what is allowed but surely not meant.

Faults are the codec's and the queue's: the consumer would make a dead letter of the line. Notes are about lines that it
takes: a field that is ignored and looks like a typing error, an answer that no judge can look at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from tracejudge.datasets.raw import raw_lines
from tracejudge_consumer.contract.faults import Fault, faults_of, short, too_large
from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.trace import Feedback, Record, SourceNode, Trace, TracePart, Turn

MAX_FUTURE: Final = timedelta(minutes=10)
"""Beyond it a trace does not move the watermark, so its window is late."""

_MODELS: Final[dict[type[Record], frozenset[str]]] = {
    kind: frozenset(kind.model_fields) for kind in (Trace, TracePart, Feedback)
}
# What a file may carry beside the contract (`tracejudge ingest`).
_OF_FILES: Final = frozenset({"labels", "label_source", "metadata"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFindings:
    """What was found about one line. Without faults the consumer takes it."""

    line: int  # from 1, blank ones included
    trace_id: str | None
    faults: tuple[Fault, ...] = ()
    notes: tuple[Fault, ...] = ()


@dataclass(slots=True)
class FileFindings:
    """The sums of a file, filled while its lines are looked at."""

    lines: int = 0
    refused: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # of faults, "reason field"
    notes: Counter[str] = field(default_factory=Counter)


def check_file(path: Path, *, now: datetime, max_record_bytes: int, findings: FileFindings) -> Iterator[LineFindings]:
    """Every line that holds something, in the memory of one line and of the ids; `findings` holds the sums.

    Plain or gzip by content. Raises OSError when the file cannot be read.
    """
    seen: dict[tuple[str, str, str], int] = {}
    with path.open("rb") as file:
        for raw in raw_lines(file):
            if raw.reason:
                fault = Fault(
                    reason=raw.reason, field="", value=raw.detail, limit="lines of JSON, plain or gzip",
                    remedy="rewrite the file",
                )  # fmt: skip
                found = LineFindings(line=raw.number, trace_id=None, faults=(fault,))
            else:
                found = _check(raw.number, raw.data, now, max_record_bytes, seen, findings)
            findings.lines += 1
            findings.refused += bool(found.faults)
            findings.reasons.update(f"{one.reason} {one.field}".strip() for one in found.faults)
            findings.notes.update(f"{one.reason} {one.field}".strip() for one in found.notes)
            yield found


def _check(
    number: int,
    data: bytes,
    now: datetime,
    max_record_bytes: int,
    seen: dict[tuple[str, str, str], int],
    findings: FileFindings,
) -> LineFindings:
    if len(data) > max_record_bytes:
        return LineFindings(line=number, trace_id=None, faults=(too_large(len(data), max_record_bytes),))
    value: Any = None
    try:
        value = codec.parse(data)
        record = codec.from_object(value)
    except RecordError as error:
        return LineFindings(line=number, trace_id=None, faults=faults_of(error, value))
    findings.kinds[record.kind] += 1
    notes = [*_unknown_fields(value, record), *_odd(record, now)]
    if isinstance(record, Trace):
        first = seen.setdefault((record.environment, record.app, record.trace_id), number)
        if first != number:
            notes.append(
                _note(
                    "repeated_id", "trace_id", record.trace_id, "one trace an id",
                    f"line {first} has it too, and the first one counts: give every answer its own id",
                )
            )  # fmt: skip
    return LineFindings(line=number, trace_id=record.trace_id, notes=tuple(notes))


def _unknown_fields(value: dict[str, Any], record: Record) -> Iterator[Fault]:
    known = _MODELS[type(record)]
    yield from _unknown("", value, known, ignored=_OF_FILES)
    for name, model in (("source_nodes", SourceNode), ("history", Turn)):
        items = value.get(name)
        for place, item in enumerate(items[:20] if isinstance(items, list) else ()):
            yield from _unknown(f"{name}.{place}.", item, frozenset(model.model_fields), ignored=frozenset())


def _unknown(prefix: str, value: dict[str, Any], known: frozenset[str], *, ignored: frozenset[str]) -> Iterator[Fault]:
    for name in value.keys() - known - ignored:
        near = get_close_matches(name, known, n=1, cutoff=0.75)
        near = near or [one for one in known if one.replace("_", "") == name.replace("_", "").lower()]
        remedy = f"write it as {near[0]!r}" if near else "put it into tags if it is useful"
        yield _note("unknown_field", prefix + short(name).strip("'"), short(value[name]), "is ignored", remedy)


def _odd(record: Record, now: datetime) -> Iterator[Fault]:
    if record.event_time > now + MAX_FUTURE:
        yield _note(
            "future", "event_time", f"{record.event_time:%Y-%m-%dT%H:%M:%SZ}", "now, at most 10 minutes ahead",
            "send UTC, or the right zone, and run NTP",
        )  # fmt: skip
    if isinstance(record, Feedback):
        if record.value is None and record.comment is None:
            yield _note("says_nothing", "value", "no value and no comment", "one of them", "send value or comment")
        return
    if not isinstance(record, Trace):
        return
    if not record.query.strip():
        yield _note("empty", "query", "an empty text", "what was asked", "relevancy judges skip it")
    if record.status == "ok" and not (record.response or "").strip():
        yield _note(
            "empty", "response", short(record.response), "the answer", 'send "status": "error" if there is none'
        )
    if not record.source_nodes:
        yield _note("no_passages", "source_nodes", "none", "the passages, in order", "judges of passages skip it")
    elif all(not (node.text or "").strip() for node in record.source_nodes):
        yield _note(
            "no_passage_text", "source_nodes", "no text in any", "passages with text",
            "send text, or let the consumer find it (intake.resolve_nodes)",
        )  # fmt: skip


def _note(reason: str, field_name: str, value: str, limit: str, remedy: str) -> Fault:
    return Fault(reason=reason, field=field_name, value=value, limit=limit, remedy=remedy)
