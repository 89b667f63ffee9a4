"""What people read, put together from the store: pass rates per window, the comparison of two runs."""

from tracejudge.reports.compare import Comparison, Flip, compare
from tracejudge.reports.rates import RateLine, read_rates

__all__ = ["Comparison", "Flip", "RateLine", "compare", "read_rates"]
