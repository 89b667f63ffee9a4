"""What the lines of a file would become, without anything being sent: for trying a mapping."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from rich.console import Console

from tracejudge.counted import counted
from tracejudge.datasets import BrokenLine, Line, RecordLine
from tracejudge_consumer.terminal.rendering import ident, instant, one_line
from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordError

_TEXT_CHARS: Final = 120
_MOST_REASONS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTried:
    """What one line becomes; `refused` says why it becomes a dead letter, and then the rest is empty. Texts are cut."""

    line: int
    refused: str = ""
    kind: str = ""
    trace_id: str = ""
    app: str = ""
    event_time: datetime | None = None
    query: str = ""
    response: str | None = None
    passages: int = 0
    passages_with_text: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTried:
    """A whole file: `lines` = `readable` + `unreadable`; `reasons` counts the latter, `first` holds the first lines."""

    file: str
    lines: int
    readable: int
    unreadable: int
    reasons: Mapping[str, int]
    first: tuple[LineTried, ...]


def try_lines(file: str, lines: Iterable[Line | RecordLine | BrokenLine], *, most: int) -> FileTried:
    """Reads all lines, and keeps what the first `most` become."""
    first: list[LineTried] = []
    reasons: Counter[str] = Counter()
    count = 0
    for count, line in enumerate(lines, start=1):  # noqa: B007 - the last number is the count
        refused = _refused(line)
        if refused:
            reasons[refused] += 1
        if len(first) < most:
            if refused or isinstance(line, BrokenLine):
                first.append(LineTried(line=line.number, refused=refused))
            else:
                first.append(_tried(line))
    unreadable = reasons.total()
    return FileTried(
        file=file,
        lines=count,
        readable=count - unreadable,
        unreadable=unreadable,
        reasons=dict(reasons.most_common()),
        first=tuple(first),
    )


def show_tried(out: Console, tried: FileTried) -> None:
    """For people; whatever the file holds is made harmless."""
    for line in tried.first:
        if line.refused:
            out.print(f"line {line.line}: unreadable: {one_line(line.refused, limit=300)}")
            continue
        out.print(f"line {line.line}: {line.kind} {ident(line.trace_id)} of {ident(line.app)}")
        facts = [("time", f"{instant(line.event_time)} UTC" if line.event_time else "–")]
        if line.kind == "trace":
            response = "– (none)" if line.response is None else one_line(line.response, limit=_TEXT_CHARS)
            facts += [
                ("query", one_line(line.query, limit=_TEXT_CHARS)),
                ("response", response),
                ("passages", f"{line.passages}, {line.passages_with_text} of them with text"),
                ("tags", ", ".join(f"{key}={value}" for key, value in line.tags.items()) or "–"),
            ]
        for name, value in facts:
            out.print(f"  {name:<9} {one_line(value, limit=300)}")
    out.print(
        f"{ident(tried.file)}: {counted(tried.lines, 'line')}, {tried.readable} readable, "
        f"{tried.unreadable} unreadable; nothing was sent"
    )
    for reason, number in list(tried.reasons.items())[:_MOST_REASONS]:
        out.print(f"  {number} unreadable: {one_line(reason, limit=300)}")
    if len(tried.reasons) > _MOST_REASONS:
        out.print(f"  and {counted(len(tried.reasons) - _MOST_REASONS, 'reason')} more; --json has all")


def _refused(line: Line | RecordLine | BrokenLine) -> str:
    if isinstance(line, BrokenLine):
        return f"{line.reason}: {line.detail}"
    try:
        codec.encode(line.trace if isinstance(line, Line) else line.record)
    except RecordError as error:
        return f"{error.reason}: {error}"
    return ""


def _tried(line: Line | RecordLine) -> LineTried:
    if isinstance(line, Line):
        trace = line.trace
        return LineTried(
            line=line.number,
            kind=trace.kind,
            trace_id=trace.trace_id,
            app=trace.app,
            event_time=trace.event_time,
            query=one_line(trace.query, limit=_TEXT_CHARS),
            response=None if trace.response is None else one_line(trace.response, limit=_TEXT_CHARS),
            passages=len(trace.source_nodes),
            passages_with_text=sum(bool(node.text and node.text.strip()) for node in trace.source_nodes),
            tags={key: one_line(value, limit=_TEXT_CHARS) for key, value in trace.tags.items()},
        )
    record = line.record
    return LineTried(
        line=line.number,
        kind=record.kind,
        trace_id=record.trace_id,
        app=record.app,
        event_time=record.event_time,
    )
