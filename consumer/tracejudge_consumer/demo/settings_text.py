"""The demo's settings file, complete, so that every command works on what the demo leaves behind."""

from __future__ import annotations

from typing import Final

MINIMUM: Final = 0.70
"""Not chosen from the demo's stream: see DESIGN.md beside this file."""

_TEXT: Final = """\
# Written by `tracejudge demo`, which starts afresh in this folder each time.
queue = "sqlite:///queue.db"
store = "chdb:///store"

[[judges]]
name = "lexical"
kind = "lexical"

[sampling]
rate = 1.0

# One small batch at a time, so that a day's traffic read in seconds is judged in the order in which it was served.
[consumer]
batch_records = 40
max_in_flight_records = 40

# Judged at half the rate of the rest: each of these answers stands for two.
[[sampling.strata]]
name = "government"
when = {{ field = "category", is = "government" }}
rate = 0.5

[alerts]
false_alarms = "1 per 30d"  # all rules together

[[rules]]
name = "lexical-minimum"
type = "minimum"
judge = "lexical"
minimum = {minimum}
"""


def demo_settings() -> str:
    """The text of the settings; its queue and store lie beside the file."""
    return _TEXT.format(minimum=MINIMUM)
