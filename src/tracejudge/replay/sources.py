"""Where a replay gets its traces from, page by page in a fixed order, and from any place in it."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

from tracejudge.datasets import Line
from tracejudge.store import Store, TraceColumns, TraceFilter, TracePlace
from tracejudge_sdk.trace import Trace

PAGE_TRACES: Final = 250
_FIRST_REACH: Final = timedelta(minutes=10)
_BLOCK_CHARS: Final = 8_000_000
_LEAST_ROWS, _MOST_ROWS = 20, 2000

Place = Mapping[str, Any]
"""The end of a page, as JSON values: what a resumed run begins behind."""


class Page:
    """The traces of a page, and the number of those left out because their texts are past their retention (`expired`).

    `make` gives the two when they are first asked for, without blocking: so they are made by the thread that judges
    them, next to their use.
    """

    def __init__(self, make: Callable[[], tuple[Sequence[Trace], int]], *, place: Place) -> None:
        self._make = make
        self.place = place

    @cached_property
    def _made(self) -> tuple[Sequence[Trace], int]:
        return self._make()

    @property
    def traces(self) -> Sequence[Trace]:
        return self._made[0]

    @property
    def expired(self) -> int:
        return self._made[1]


class Source(Protocol):
    """Traces in a fixed order. Both methods may block."""

    def count(self) -> int:
        """The number of traces in the source."""
        ...

    def pages(self, after: Place | None = None) -> Iterator[Page]:
        """The pages after the position `after` (from the beginning when None), in constant memory."""
        ...


class StoreSource:
    """The stored traces of a filter, by event time and id.

    Read in blocks of some megabytes of text, since the store reads a granule of some thousand rows for any of them, and
    each no further in time than four times the one before: what lies behind is not sorted for every block.
    """

    def __init__(self, store: Store, where: TraceFilter, *, asked: bool = False, page: int = PAGE_TRACES) -> None:
        """`asked`: the judges put questions of ours to a model, so that nothing else of a trace is read."""
        self._store = store
        self._where = where
        self._asked = asked
        self._page = page

    def count(self) -> int:
        return self._store.traces.count(self._where)

    def pages(self, after: Place | None = None) -> Iterator[Page]:
        for block in self._blocks(None if after is None else _place(after)):
            for first in range(0, len(block), self._page):
                yield Page(
                    partial(_unexpired, block, first, first + self._page), place=_place_of(block, first + self._page)
                )

    def _blocks(self, after: TracePlace | None) -> Iterator[TraceColumns]:
        where, rows, reach = self._where, self._page, _FIRST_REACH
        while True:
            start = where.start if after is None else after.event_time
            # Without both ends there is nothing to go through in steps.
            last = start is None or where.end is None or where.end - start <= reach
            step = where if last or start is None else replace(where, end=start + reach)
            block = self._store.traces.served(step, most=rows, after=after, asked=self._asked)
            if block:
                yield block
            if len(block) == rows:
                after = block.place(-1)
                if start is not None:
                    reach = max(_FIRST_REACH, 4 * (after.event_time - start))
                rows = max(_LEAST_ROWS, min(_MOST_ROWS, _BLOCK_CHARS * len(block) // max(1, block.chars)))
            elif last:
                return
            else:  # nothing more is in reach: go on from there, and further
                where, after, reach = replace(where, start=step.end), None, 8 * reach


def _unexpired(block: TraceColumns, first: int, end: int) -> tuple[Sequence[Trace], int]:
    traces, expired = block.part(first, end)
    if not expired:
        return traces, 0
    return [one for at, one in enumerate(traces) if at not in expired], len(expired)


def _place_of(block: TraceColumns, end: int) -> Place:
    last = block.place(min(end, len(block)) - 1)
    return {
        "event_time": last.event_time.isoformat(),
        "trace_id": last.trace_id,
        "environment": last.environment,
        "app": last.app,
    }


class FileSource:
    """The traces of files that meet a filter, in the order of their lines. `read` gives the lines of a file."""

    def __init__(
        self,
        files: Sequence[Path],
        where: TraceFilter,
        *,
        read: Callable[[Path], Iterator[object]],
        page: int = PAGE_TRACES,
    ) -> None:
        self._files = tuple(files)
        self._where = where
        self._read = read
        self._page = page

    def count(self) -> int:
        return sum(1 for _ in self._lines(0, 0))

    def draw_line(self, *, traces: int, seed: int) -> int | None:
        """The threshold of a draw, as `Traces.draw_line` gives it, by a hash computed here (`drawn`)."""
        hashes = (drawn(line.trace, seed) for _, line in self._lines(0, 0))
        smallest = heapq.nsmallest(traces, hashes)
        return smallest[-1] if len(smallest) == traces else None

    def pages(self, after: Place | None = None) -> Iterator[Page]:
        file, number = (0, 0) if after is None else (int(after["file"]), int(after["line"]))
        lines = self._lines(file, number)
        while chunk := list(islice(lines, self._page)):
            file, last = chunk[-1]
            place = {"file": file, "line": last.number}
            traces = [line.trace for _, line in chunk]
            yield Page(partial(_ready, traces), place=place)

    def _lines(self, file: int, behind: int) -> Iterator[tuple[int, Line]]:
        for index in range(file, len(self._files)):
            for line in self._read(self._files[index]):
                if (
                    isinstance(line, Line)
                    and (index > file or line.number > behind)
                    and matches(line.trace, self._where)
                ):
                    yield index, line


def _ready(traces: Sequence[Trace]) -> tuple[Sequence[Trace], int]:
    return traces, 0


def matches(trace: Trace, where: TraceFilter) -> bool:
    """Whether a trace that is not stored meets the filter, as the store would decide it."""
    if where.start is not None and trace.event_time < where.start:
        return False
    if where.end is not None and trace.event_time >= where.end:
        return False
    names = ("environment", "app", "version", "category", "user_id", "session_id", "status")
    if any(getattr(where, name) not in (None, getattr(trace, name)) for name in names):
        return False
    if where.trace_ids and trace.trace_id not in where.trace_ids:
        return False
    if any(_field(trace, name) != wanted for name, wanted in where.also):
        return False
    return where.draw is None or drawn(trace, where.draw.seed) <= where.draw.at_most


def drawn(trace: Trace, seed: int) -> int:
    """The hash, 64 bits, by which a Draw chooses among traces of files."""
    text = "\x1f".join((str(seed), trace.environment, trace.app, trace.trace_id))
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def file_hash(path: Path) -> str:
    """The SHA-256 of a file's content. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _field(trace: Trace, name: str) -> str:
    if name.startswith("tags."):
        return trace.tags.get(name.removeprefix("tags."), "")
    return str(getattr(trace, name) or "")


def _place(value: Place) -> TracePlace:
    return TracePlace(
        event_time=datetime.fromisoformat(value["event_time"]),
        trace_id=value["trace_id"],
        environment=value["environment"],
        app=value["app"],
    )
