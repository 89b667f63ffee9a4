"""What the lines of a file would become, without anything being sent: for trying a mapping."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from tracejudge.counted import counted
from tracejudge.datasets import BrokenLine, EventTimes, Line, RecordLine, read_lines
from tracejudge_consumer.intake.mapping import ForeignForm
from tracejudge_consumer.terminal.rendering import ident, instant, one_line
from tracejudge_consumer.views.reasons import show_reasons
from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordError

_TEXT_CHARS: Final = 120


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
    """A whole file: `lines` = `readable` + `unreadable`; `reasons` counts the latter, `first` holds the first lines.

    `nowhere` names the fields that the mapping found in no line, unless there was none to look at.
    """

    file: str
    lines: int
    readable: int
    unreadable: int
    reasons: Mapping[str, int]
    first: tuple[LineTried, ...]
    nowhere: Mapping[str, str]


class WatchedForm:
    """A mapping, and which of its fields it has found so far."""

    def __init__(self, form: ForeignForm) -> None:
        self._form = form
        self._found: set[str] | None = None

    def values(self, value: Mapping[str, Any], /) -> dict[str, Any]:
        found = self._form.values(value)
        self._found = (self._found or set()) | found.keys()
        return found

    def explain(self, error: RecordError, /) -> RecordError:
        return self._form.explain(error)

    @property
    def nowhere(self) -> dict[str, str]:
        """The fields found in no line, with what to look at."""
        return {} if self._found is None else self._form.nowhere(self._found)


def try_file(
    path: Path, *, app: str | None, times: EventTimes | None, form: ForeignForm | None, most: int
) -> FileTried:
    """Reads all lines, and keeps what the first `most` become."""
    watched = None if form is None else WatchedForm(form)
    lines = read_lines(path, app=app, event_time=times, form=watched)
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
        file=path.name,
        lines=count,
        readable=count - unreadable,
        unreadable=unreadable,
        reasons=dict(reasons.most_common()),
        first=tuple(first),
        nowhere={} if watched is None else watched.nowhere,
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
    show_reasons(out, tried.reasons, one="unreadable", many="unreadable")
    for name, words in tried.nowhere.items():
        out.print(f"  in no line: {name}: {one_line(words, limit=300)}")


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
