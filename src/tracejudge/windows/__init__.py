"""Pure arithmetic over event time: panes and tiles, the watermark, the weighted pass rate with its interval."""

from tracejudge.windows.panes import PANE_S, Window, floor_to, tiles
from tracejudge.windows.rate import LEAST_EFFECTIVE, Interval, PassRate, enough, pass_rate, wilson
from tracejudge.windows.watermark import MAX_AHEAD, Watermark

__all__ = [
    "LEAST_EFFECTIVE",
    "MAX_AHEAD",
    "PANE_S",
    "Interval",
    "PassRate",
    "Watermark",
    "Window",
    "enough",
    "floor_to",
    "pass_rate",
    "tiles",
    "wilson",
]
