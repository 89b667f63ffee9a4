"""ADWIN of the river library behind the interface of the bench: the strongest library detector, when it is retuned."""

from __future__ import annotations

from typing import Any

import numpy as np
from river.drift import ADWIN

from tests.bench.alerts_runs import Detector, Fresh
from tests.bench.alerts_streams import Stream

_DELTA = 0.2


class _Adwin:
    """Fires when ADWIN cuts its window and the rate went down; a cut upwards goes unnoticed, as a user would set it."""

    def __init__(self, delta: float) -> None:
        self._delta = delta

    def run(self, passed: np.ndarray, weight: np.ndarray, at_s: np.ndarray) -> int | None:
        detector: Any = ADWIN(delta=self._delta)  # type: ignore[no-untyped-call] # river has no types here
        for place, x in enumerate(passed.tolist()):
            before = detector.estimation
            detector.update(float(x))
            if detector.drift_detected and detector.estimation < before:
                return place
        return None


def adwin(scale: float) -> Fresh:
    """Detectors that fire the more rarely, the larger `scale` is."""

    def fresh(_: Stream | None) -> Detector:
        return _Adwin(min(0.999, _DELTA / scale))

    return fresh
