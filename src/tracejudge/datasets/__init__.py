"""Traces in files: one JSON object a line, as in the wire contract, with labels where people gave them."""

from tracejudge.datasets.lines import BrokenLine, EventTimes, Line, RecordLine, event_times, read_lines

__all__ = ["BrokenLine", "EventTimes", "Line", "RecordLine", "event_times", "read_lines"]
