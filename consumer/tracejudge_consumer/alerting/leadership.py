"""Leadership by a lease in the store: one process at a time leads, and checks before each step that it still does.

The lease is taken at the top of a tick only, because under a new lease the state has to be read from the store again.
Within a tick it is renewed once a third of its time has passed, so that a single slow answer does not lose it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tracejudge.clock import Clock
from tracejudge.errors import ServiceUnavailable
from tracejudge.store import Lease, Store

logger = logging.getLogger(__name__)


class Leadership:
    """This process's hold on the lease `name`. `holder` must be unique to the process. Not thread-safe.

    `take` and `keep` raise ServiceUnavailable while the store is away.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        holder: str,
        ttl_s: float,
        clock: Clock,
        checkpoint: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._name = name
        self._holder = holder
        self._ttl_s = ttl_s
        self._clock = clock
        self._checkpoint = checkpoint
        self._lease: Lease | None = None
        self._renewed_at = 0.0

    @property
    def leading(self) -> bool:
        """Whether this process held the lease at the last `take` or `keep`."""
        return self._lease is not None

    @property
    def fencing(self) -> int:
        """The fencing number of the lease, higher with each leader. Raises RuntimeError without a lease."""
        if self._lease is None:
            raise RuntimeError(f"no lease {self._name!r}; only who leads has a fencing number")
        return self._lease.fencing

    def take(self) -> bool:
        """Takes the lease, or renews it when it is held; False while another process has it."""
        now = self._clock.monotonic()
        self._lease = self._store.leases.acquire(self._name, self._holder, self._ttl_s)
        self._renewed_at = now
        if self._lease is not None:
            logger.info("%s: leading with fencing number %d", self._name, self._lease.fencing)
        self._checkpoint("lease")
        return self._lease is not None

    def keep(self) -> bool:
        """Renews the lease when due. False when there is none or it is lost: results under it must not be used."""
        now = self._clock.monotonic()
        if self._lease is None:
            return False
        if now - self._renewed_at < self._ttl_s / 3:
            return True
        held = self._store.leases.renew(self._lease, self._ttl_s)
        if held is None:
            logger.warning("%s: lease lost after fencing number %d", self._name, self._lease.fencing)
        self._lease, self._renewed_at = held, now
        self._checkpoint("lease")
        return held is not None

    def give_back(self) -> None:
        """Releases the lease, so that another process may lead at once; if the store is away, it runs out by itself."""
        lease, self._lease = self._lease, None
        if lease is not None:
            try:
                self._store.leases.release(lease)
            except ServiceUnavailable as error:
                logger.warning("%s: the lease is not given back, it runs out by itself: %s", self._name, error)
