"""The store's time on this machine.

What several machines stamp (when a trace was judged, in which day a budget is) is compared by readers who go by the
store's clock. A machine whose own clock is some minutes behind would stamp verdicts that the alert loop has passed
already, and nobody would be told.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tracejudge.clock import Clock, SystemClock
from tracejudge.errors import TraceJudgeError

logger = logging.getLogger(__name__)

ASK_EVERY_S: Final = 60.0
ASK_AGAIN_S: Final = 5.0
LOOK_EVERY_S: Final = 1.0
STEP_S: Final = 1.0
"""Wall clock and monotonic clock drift apart by less; more is a clock that was set, or a machine that slept."""


class _Answer(NamedTuple):
    store: datetime
    wall: datetime
    monotonic: float


class StoreClock:
    """A Clock with the time of a store, which `ask` reads. Thread-safe.

    It asks when it is made and goes on by the machine's monotonic clock; later it asks in the background, once a minute
    and when the machine's own clock was set. Making one raises what `ask` raises.
    """

    def __init__(
        self,
        ask: Callable[[], datetime],
        *,
        machine: Clock | None = None,
        in_background: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self._ask = ask
        self._machine = machine or SystemClock()
        self._in_background = in_background or _in_thread
        self._asking = threading.Lock()
        self._answer = self._read()
        self._look_at = self._answer.monotonic + ASK_AGAIN_S

    def now(self) -> datetime:
        answer, monotonic = self._answer, self._machine.monotonic()
        if monotonic >= self._look_at:  # seldom: this is called several times a trace
            self._look(answer, monotonic)
        return answer.store + timedelta(seconds=monotonic - answer.monotonic)

    def monotonic(self) -> float:
        return self._machine.monotonic()

    def _look(self, answer: _Answer, monotonic: float) -> None:
        self._look_at = monotonic + LOOK_EVERY_S
        passed_s = monotonic - answer.monotonic
        was_set = abs((self._machine.now() - answer.wall).total_seconds() - passed_s) > STEP_S
        if (was_set or passed_s >= ASK_EVERY_S) and self._asking.acquire(blocking=False):
            self._look_at = monotonic + ASK_AGAIN_S
            self._in_background(self._again)

    def _again(self) -> None:
        try:
            self._answer = self._read()
        except TraceJudgeError as error:  # away, or closed: time goes on without it
            logger.debug("the store's clock was not read: %s", error)
        finally:
            self._asking.release()

    def _read(self) -> _Answer:
        before = self._machine.monotonic()
        store = self._ask()
        after = self._machine.monotonic()
        return _Answer(store, self._machine.now() - timedelta(seconds=(after - before) / 2.0), (before + after) / 2.0)


def _in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="tracejudge-store-clock", daemon=True).start()
