"""What the alert loop counts, beside the consumer's metrics or in a registry of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.judges.hold_mark import held_because, known_before
from tracejudge_consumer.watching.loop_health import LoopHealth
from tracejudge_consumer.watching.metrics import counter, gauge


class LoopMetrics:
    """Thread-safe, as prometheus_client's metrics are."""

    def __init__(self, registry: CollectorRegistry, health: LoopHealth) -> None:
        self._leading = gauge(registry, "tracejudge_alert_loop_leading", "1 where the alert loop is led.")
        self._rounds = counter(registry, "tracejudge_alert_rounds_total", "Rounds of the alert loop.", "result")
        self._dead = gauge(registry, "tracejudge_alert_channel_dead", "1 while a channel takes no alerts.", "channel")
        self._held = gauge(registry, "tracejudge_alerts_held", "Alerts held back because of their judge.", "because")
        self._events = counter(registry, "tracejudge_alert_events_total", "Alert events published.", "kind")
        age = gauge(registry, "tracejudge_alert_round_age_seconds", "Since a round came to its end.")
        started = health.started_s_ago
        # Asked at each scrape: a loop that hangs sets nothing any more.
        age.set_function(lambda: started() if (ago := health.report().last_round_s_ago) is None else ago)

    def round_done(
        self,
        events: Iterable[AlertEvent],
        *,
        leading: bool,
        channels: Mapping[str, bool] | None = None,
        held: Iterable[AlertEvent] = (),
    ) -> None:
        """A round came to its end with these events; `channels` says by name which of them are dead, `held` are the
        alerts that are held back now. An event that is let go was counted when it was held back."""
        self._leading.set(leading)
        if not leading:
            self._dead.clear()  # whoever leads now knows: what we knew last is not to fire on
            self._held.clear()
        else:
            why = [held_because(event) for event in held]
            for because in ("judge_moved", "round_asked"):
                self._held.labels(because).set(why.count(because))
        for name, dead in (channels or {}).items():
            self._dead.labels(name).set(dead)
        self._rounds.labels("done").inc()
        for event in events:
            if not known_before(event):
                self._events.labels(event.kind).inc()

    def round_failed(self) -> None:
        """A round was broken off."""
        self._rounds.labels("broken_off").inc()
