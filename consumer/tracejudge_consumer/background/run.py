"""The background work while the pipeline runs: it runs on the worker's loop, and the intake thread checks on it."""

from __future__ import annotations

import concurrent.futures
import logging
from concurrent.futures import Future
from typing import Final

from tracejudge_consumer.background.upkeep import Upkeep
from tracejudge_consumer.process.worker import Worker

_LOG = logging.getLogger(__name__)

_FAREWELL_S: Final = 2.0  # to give the lease back; without that it runs out by itself


class BackgroundRun:
    """Rounds of upkeep during one run of the pipeline. Used by the intake thread; only `end` waits."""

    def __init__(self, upkeep: Upkeep, worker: Worker) -> None:
        self._upkeep = upkeep
        self._worker = worker
        self._rounds: Future[None] = worker.submit(upkeep.run())
        self._last: Future[None] | None = None

    def check(self) -> None:
        """Raises what the rounds raised, which is a fault of this program: a store that is away is waited for."""
        for future in (self._rounds, self._last):
            if future is not None and future.done():
                future.result()

    def last_round_done(self) -> bool:
        """Starts a last round at the first call; True once it is done."""
        if self._last is None:
            self._last = self._worker.submit(self._upkeep.round())
        return self._last.done()

    def end(self) -> None:
        """Stops the rounds and gives the lease back, within `_FAREWELL_S` seconds."""
        running = [future for future in (self._rounds, self._last) if future is not None and not future.done()]
        for future in running:
            future.cancel()
        ended = self._worker.submit(self._upkeep.given_back())
        try:
            ended.result(_FAREWELL_S)
        except (concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            _LOG.warning("upkeep: the lease is not given back, it runs out by itself")
