"""A channel that hears of some severities only."""

from __future__ import annotations

from collections.abc import Sequence

from tracejudge.alerts.event import AlertEvent, Severity
from tracejudge.alerts.notify import Notifier


class RoutedNotifier:
    """Passes on events of the given severities; the others count as delivered, since nobody wants them here."""

    def __init__(self, inner: Notifier, severities: Sequence[Severity]) -> None:
        self._inner = inner
        self._severities = frozenset(severities)

    @property
    def name(self) -> str:
        return self._inner.name

    def notify(self, event: AlertEvent) -> None:
        if event.severity in self._severities:
            self._inner.notify(event)
