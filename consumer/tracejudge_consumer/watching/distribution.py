"""A Prometheus histogram that takes many values at once.

The library's own takes one value at a time, with a lock and a search by hand for each: of what a trace costs that is
more than storing its score.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Distribution(Collector):
    """How many values fell below each of `bounds`, by one label. Thread-safe."""

    def __init__(self, name: str, words: str, label: str, bounds: Sequence[float], registry: CollectorRegistry) -> None:
        self._name, self._words, self._label = name, words, label
        self._bounds = (*bounds, float("inf"))
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._lock = threading.Lock()
        registry.register(self)

    def observe(self, label: str, values: Sequence[float]) -> None:
        """Adds values to the distribution of a label."""
        bounds = self._bounds
        with self._lock:
            counts = self._counts.setdefault(label, [0] * len(bounds))
            for value in values:
                counts[bisect_left(bounds, value)] += 1
            self._sums[label] = self._sums.get(label, 0.0) + sum(values)

    def describe(self) -> Iterable[Metric]:
        yield HistogramMetricFamily(self._name, self._words, labels=[self._label])

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self._name, self._words, labels=[self._label])
        with self._lock:
            for label, counts in self._counts.items():
                below = zip(map(floatToGoString, self._bounds), accumulate(counts), strict=True)
                family.add_metric([label], [(bound, float(count)) for bound, count in below], self._sums[label])
        yield family
