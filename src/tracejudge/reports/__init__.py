"""What people read, put together from the store: pass rates per window, two runs or two releases side by side."""

from tracejudge.reports.compare import Comparison, Flip, compare
from tracejudge.reports.rates import RateLine, read_rates
from tracejudge.reports.release import ReleaseCheck, ReleaseLine, check_release
from tracejudge.reports.unpaired import ReleaseVerdict, Verdict

__all__ = [
    "Comparison",
    "Flip",
    "RateLine",
    "ReleaseCheck",
    "ReleaseLine",
    "ReleaseVerdict",
    "Verdict",
    "check_release",
    "compare",
    "read_rates",
]
