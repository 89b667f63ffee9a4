"""The lines of a file of traces as the settings describe them: through [intake.mapping], with the texts of bare ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from tracejudge.datasets import BrokenLine, EventTimes, Line, LineForm, RecordLine, read_lines
from tracejudge_consumer.intake.resolve import NodeResolver

_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """How files are read; as they are by default."""

    form: LineForm | None = None
    resolver: NodeResolver | None = None

    def lines(
        self, path: Path, *, app: str | None, event_time: EventTimes | None = None
    ) -> Iterator[Line | RecordLine | BrokenLine]:
        """What the lines hold, in order. Raises OSError, and ServiceUnavailable when the texts' source is away."""
        found = read_lines(path, app=app, event_time=event_time, form=self.form)
        if self.resolver is None:
            yield from found
            return
        while chunk := list(islice(found, _AT_ONCE)):
            filled = iter(self.resolver.filled([line.trace for line in chunk if isinstance(line, Line)]))
            for line in chunk:
                yield replace(line, trace=next(filled)) if isinstance(line, Line) else line
