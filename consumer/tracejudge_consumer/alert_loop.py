"""The one leader that folds stored scores into alerts and sees that every notification is delivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracejudge.alerts import AlertEvent, MinimumRule, Notifier
from tracejudge.clock import Clock
from tracejudge.store import Store


class AlertLoop:
    """Call `tick` every few seconds from any number of processes: the holder of the store's lease does the work."""

    def __init__(
        self,
        *,
        store: Store,
        rules: Sequence[MinimumRule],
        notifiers: Sequence[Notifier],
        clock: Clock,
        holder: str,
        settle_s: float = 30.0,
        lookback_s: float = 900.0,
        checkpoint: Callable[[str], None] = lambda _: None,
    ) -> None:
        raise NotImplementedError

    def tick(self) -> list[AlertEvent]:
        """One round: the events newly published by this process; empty while another process leads."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives the lease back, so that another process may lead at once."""
        raise NotImplementedError
