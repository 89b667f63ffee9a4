"""How many calls at once an endpoint takes, learnt from what it answers: additive increase, decrease on real signals.

A signal is not one 429. At 50 calls in flight a server that refuses one call in twenty at random would be cut down to
nothing by it. What counts:

- a share: `REFUSALS` of the last `WINDOW` answers were 429, "overloaded" or timeouts (a 429 that names a Retry-After
  weighs twice). At that moment the calls still in flight are those the endpoint took: their number is the new limit;
- latency: the typical time of a round is more than `SLOWER` times that of the quickest recent round. The endpoint
  queues. Typical is the geometric mean: latencies have long tails, and the arithmetic mean of fifty calls doubles by
  chance alone. The first calls of all do not count, since the quick ones among them are answered first.

Where it refused once, only a probe goes again: one call more, after `PROBE_AFTER` answers. A probe ends with the first
refusal, so that looking for more costs about one 429 in a hundred. One that lasts wipes the memory of the refusal.

Nothing here waits or looks at a clock.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

WINDOW: Final = 20
REFUSALS: Final = 5
PROBE_AFTER: Final = 100
SLOWER: Final = 2.0
SLOWER_CUT: Final = 0.7
_ROUNDS: Final = 30
_LEAST_S: Final = 1e-6  # a clock that stands still in a test


class Concurrency:
    """The limit of one endpoint: between 1 and `most`, where it begins."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = most
        self._weights: deque[int] = deque(maxlen=WINDOW)
        self._refused_at: int | None = None  # the least limit at which the endpoint refused
        self._since = 0  # answers since the limit last changed
        self._probing = False
        self._round_logs = 0.0
        self._round_calls = -most  # the first `most` answers are the quicker half of twice as many
        self._rounds: deque[float] = deque(maxlen=_ROUNDS)

    def answered(self, latency_s: float, *, busy: bool) -> None:
        """A call was answered. `busy`: the limit was reached, so that more would have been sent if it were higher."""
        self._weights.append(0)
        if not busy:
            return  # an endpoint that is not asked for more shows nothing about what it would take
        self._since += 1
        self._round_calls += 1
        if self._round_calls > 0:
            self._round_logs += math.log(max(latency_s, _LEAST_S))
        if self._round_calls >= max(WINDOW, self.limit) and self._slower():
            return
        if self._probing and self._since >= 2 * self.limit:
            self._probing, self._refused_at = False, None
        if self.limit < self.most and self._since >= self._wait():
            step = 1 if self._near_refusal() else max(1, self.limit // 10)
            self._probing = self._near_refusal()
            self._set(min(self.most, self.limit + step), refused_at=self._refused_at)

    def refused(self, *, in_flight: int, asked_to_wait: bool = False) -> bool:
        """The endpoint took no more (or let a call time out) while `in_flight` others were open. True when that made it
        a signal, and the limit was cut."""
        self._weights.append(2 if asked_to_wait else 1)
        if self._probing:
            self._probing = False
            self._set(max(1, self.limit - 1), refused_at=self.limit)
            return False
        if sum(self._weights) < REFUSALS:
            return False
        self._set(max(1, min(self.limit - 1, in_flight)), refused_at=self.limit)
        return True

    def _near_refusal(self) -> bool:
        return self._refused_at is not None and self.limit + 1 >= self._refused_at

    def _wait(self) -> int:
        """Answers to wait for before the limit rises: a round, or many where the next step was refused before."""
        return max(PROBE_AFTER, 2 * self.limit) if self._near_refusal() else self.limit

    def _slower(self) -> bool:
        typical_s = math.exp(self._round_logs / self._round_calls)
        self._round_logs, self._round_calls = 0.0, 0
        queues = bool(self._rounds) and typical_s > SLOWER * min(self._rounds)
        if queues:
            # The new level is what is compared with from here on: where a smaller limit does not make the endpoint
            # quicker, it was not the limit, and the limit grows back instead of being cut again and again.
            self._rounds.clear()
            self._set(max(1, int(self.limit * SLOWER_CUT)), refused_at=self._refused_at)
        self._rounds.append(typical_s)
        return queues

    def _set(self, limit: int, *, refused_at: int | None) -> None:
        self.limit, self._refused_at = limit, refused_at
        self._since = 0
        self._weights.clear()
