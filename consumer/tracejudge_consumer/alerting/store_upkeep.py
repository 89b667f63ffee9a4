"""What the leader does once a minute: the rates of the next sampling epoch, the rollup for long windows, and the sweep
behind `forget`."""

from __future__ import annotations

import logging
from typing import Final

from tracejudge.clock import Clock
from tracejudge.errors import StoreError
from tracejudge.sampling import SamplingPolicy
from tracejudge.store import Store
from tracejudge_consumer.alerting.governing import Governing

logger = logging.getLogger(__name__)

EVERY_S: Final = 60.0


class StoreUpkeep:
    """Call `run_if_due` as often as you like, as the leader alone."""

    def __init__(self, store: Store, clock: Clock, *, policy: SamplingPolicy | None = None) -> None:
        self._store = store
        self._governing = Governing(store, policy or SamplingPolicy())
        self._clock = clock
        self._done_at: float | None = None

    def run_if_due(self) -> bool:
        """True when a minute had gone and everything was done. Raises ServiceUnavailable when the store is away.

        What the store refuses is logged and tried again a minute later: it costs speed, and must not silence an alert.
        """
        now = self._clock.monotonic()
        if self._done_at is not None and now - self._done_at < EVERY_S:
            return False
        self._done_at = now
        try:
            self._governing.decide_next()
            self._store.minutes.rollup()
            swept = self._store.forgetting.sweep(at=self._clock.now())
        except StoreError as error:
            logger.error("upkeep of the store failed, next try in %g s: %s", EVERY_S, error)
            return False
        if swept.total:
            logger.info("swept %d rows of %d forgotten traces that were stored late", swept.total, swept.traces)
        return True
