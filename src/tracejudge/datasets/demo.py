"""The labelled traces that ship with the package, for the demo. Their sources and licences: data/NOTICE."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from tracejudge.datasets.lines import EventTimes, Line, event_times
from tracejudge.datasets.read import read_lines

_START: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)


def demo_lines(*, event_time: EventTimes | None = None) -> Iterator[Line]:
    """Some hundred real traces with human labels of faithfulness, always in the same order.

    They carry no event time of their own; by default they are one second apart, from 2026-01-01 00:00 UTC.
    """
    resource = files("tracejudge.datasets").joinpath("data/demo.jsonl.gz")
    with as_file(resource) as path:
        yield from _traces(path, event_time or event_times(_START, 1.0))


def _traces(path: Path, times: EventTimes) -> Iterator[Line]:
    for line in read_lines(path, event_time=times):
        if not isinstance(line, Line):
            raise TypeError(f"demo data holds {line!r}: the package is damaged, reinstall it")
        yield line
