"""Small real things for tests of code that uses tracejudge: a clock moved by hand, builders, a channel that records."""

from tracejudge.testing.builders import make_score, make_trace
from tracejudge.testing.clock import ManualClock
from tracejudge.testing.notifiers import RecordingGroupNotifier, RecordingNotifier

__all__ = ["ManualClock", "RecordingGroupNotifier", "RecordingNotifier", "make_score", "make_trace"]
