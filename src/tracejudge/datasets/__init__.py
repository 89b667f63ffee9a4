"""Traces in files: one JSON object a line, as in the wire contract, with labels where people gave them."""

from tracejudge.datasets.demo import demo_lines
from tracejudge.datasets.lines import BrokenLine, EventTimes, Line, RecordLine, event_times
from tracejudge.datasets.raw import MAX_LINE_BYTES
from tracejudge.datasets.read import LineForm, file_times, read_lines, read_stream
from tracejudge.datasets.write import write_line

__all__ = [
    "MAX_LINE_BYTES",
    "BrokenLine",
    "EventTimes",
    "Line",
    "LineForm",
    "RecordLine",
    "demo_lines",
    "event_times",
    "file_times",
    "read_lines",
    "read_stream",
    "write_line",
]
