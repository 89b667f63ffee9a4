"""Small real things for tests of code that uses tracejudge: a clock moved by hand, builders of traces and scores."""

from tracejudge.testing.builders import make_score, make_trace
from tracejudge.testing.clock import ManualClock

__all__ = ["ManualClock", "make_score", "make_trace"]
