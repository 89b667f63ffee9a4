"""A stream of real, human-labelled answers whose faithfulness falls at a known time, in one category only.

Healthy stretches are answers that people found faithful. In the fall the faithful HAGRID answers ("general") give way
to claims that annotators found unsupported by their passages; the other categories go on as before.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tracejudge.datasets import Line, demo_lines, read_lines
from tracejudge_sdk.trace import Trace

UNFAITHFUL: Final = Path(__file__).parents[1] / "data" / "hagrid_unfaithful.jsonl.gz"
CATEGORIES: Final = {"mtrag-ibmcloud": "cloud", "mtrag-govt": "government", "hagrid": "general"}
STEP: Final = timedelta(minutes=1)


def labelled_stream(start: datetime, stretches: list[tuple[int, bool]], *, seed: int = 20260101) -> list[list[Trace]]:
    """The traces of each (number, is healthy) stretch, a minute apart from `start` on."""
    dice = random.Random(seed)
    faithful = [
        line.trace
        for line in demo_lines()
        if [label.value for label in line.labels if label.criterion == "faithfulness"] == [1.0]
    ]
    unfaithful = [line.trace for line in read_lines(UNFAITHFUL) if isinstance(line, Line)]
    dice.shuffle(faithful)
    dice.shuffle(unfaithful)
    served, number, bad = [], 0, 0
    for count, healthy in stretches:
        stretch = []
        for _ in range(count):
            trace = faithful[number % len(faithful)]
            category = CATEGORIES[trace.app]
            if not healthy and category == "general":
                trace, bad = unfaithful[bad % len(unfaithful)], bad + 1
            stretch.append(
                trace.model_copy(
                    update={
                        "trace_id": f"a-{number:05d}",
                        "app": "assistant",
                        "category": category,
                        "version": "v41",
                        "event_time": start + number * STEP,
                    }
                )
            )
            number += 1
        served.append(stretch)
    return served
