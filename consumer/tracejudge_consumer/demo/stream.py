"""A production stream made of real, labelled answers: a healthy stretch, then a bad release.

Nothing is invented: the bad release answers part of the questions with other questions' answers, as a broken cache or a
mixed-up index would. Its rows are used a second time, under new ids.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tracejudge.datasets import demo_lines
from tracejudge.scores import Label
from tracejudge_sdk.trace import Trace

APP: Final = "assistant"
GOOD_VERSION: Final = "v41"
BAD_VERSION: Final = "v42"
STEP: Final = timedelta(minutes=3)
BAD_SHARE: Final = 0.5
_SEED: Final = 20260101
_CATEGORIES: Final = {"mtrag-ibmcloud": "cloud", "mtrag-govt": "government", "hagrid": "general"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoStream:
    """Both stretches in order of event time; `swapped` counts the answers of the bad one that are not their own."""

    healthy: tuple[Trace, ...]
    bad: tuple[Trace, ...]
    labels: tuple[Label, ...]
    swapped: int


def demo_stream(end: datetime) -> DemoStream:
    """The stream, one answer every three minutes, the last one just before `end`.

    The healthy stretch is three times as long as the bad one. The same every time but for the event times.
    """
    lines = list(demo_lines())
    dice = random.Random(_SEED)  # noqa: S311 - a fixed order, no secret
    dice.shuffle(lines)
    bad_lines = dice.sample(lines, len(lines) // 3)
    start = end - STEP * (len(lines) + len(bad_lines))
    healthy: list[Trace] = []
    labels: list[Label] = []
    for number, line in enumerate(lines):
        trace = _served(line.trace, at=start + STEP * number, version=GOOD_VERSION, trace_id=line.trace.trace_id)
        healthy.append(trace)
        labels.extend(
            Label(
                environment=trace.environment,
                app=trace.app,
                trace_id=trace.trace_id,
                criterion=label.criterion,
                value=label.value,
                source=label.source,
                note=label.note,
                labelled_at=label.labelled_at,
            )
            for label in line.labels
        )
    swapped = [number for number, _ in enumerate(bad_lines) if dice.random() < BAD_SHARE]
    # Each of them gets the answer of the next one: nobody keeps their own.
    answers = {number: bad_lines[swapped[place - 1]].trace.response for place, number in enumerate(swapped)}
    bad = [
        _served(
            line.trace,
            at=start + STEP * (len(lines) + number),
            version=BAD_VERSION,
            trace_id=f"{line.trace.trace_id}-{BAD_VERSION}",
        ).model_copy(update={"response": answers.get(number, line.trace.response)})
        for number, line in enumerate(bad_lines)
    ]
    return DemoStream(healthy=tuple(healthy), bad=tuple(bad), labels=tuple(labels), swapped=len(swapped))


def _served(trace: Trace, *, at: datetime, version: str, trace_id: str) -> Trace:
    return trace.model_copy(
        update={
            "trace_id": trace_id,
            "app": APP,
            "version": version,
            "category": _CATEGORIES.get(trace.app, trace.app),
            "event_time": at,
        }
    )
