"""Who watches the watcher: the health and metrics of one process, shown on its status port, and its heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from tracejudge.clock import SystemClock
from tracejudge_consumer.settings import Settings
from tracejudge_consumer.watching.health import Health, HealthReport
from tracejudge_consumer.watching.heartbeat import Heartbeat, Sender, beating, heartbeat_counter
from tracejudge_consumer.watching.loop_health import LoopHealth, LoopReport
from tracejudge_consumer.watching.loop_metrics import LoopMetrics
from tracejudge_consumer.watching.metrics import Metrics, gauge
from tracejudge_consumer.watching.status_server import status_server
from tracejudge_sdk import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport:
    """Everything that runs in one process: live and ready when each part of it is."""

    live: bool
    ready: bool
    reasons: tuple[str, ...]
    consumer: HealthReport | None
    alert_loop: LoopReport | None


class Watch:
    """The health and metrics of a process that runs a consumer, an alert loop, or both."""

    def __init__(self, *, consumer: bool = False, alert_loop: bool = False) -> None:
        clock = SystemClock()
        self.registry = CollectorRegistry()
        info = gauge(self.registry, "tracejudge_build_info", "1, with the version.", "version")
        info.labels(__version__).set(1)
        self.metrics = Metrics(self.registry) if consumer else None
        self.health = Health(clock) if consumer else None
        self.loop_health = LoopHealth(clock) if alert_loop else None
        self.loop_metrics = None if self.loop_health is None else LoopMetrics(self.registry, self.loop_health)
        self._beats = heartbeat_counter(self.registry)

    def report(self) -> ProcessReport:
        """One look at everything."""
        consumer = None if self.health is None else self.health.report()
        loop = None if self.loop_health is None else self.loop_health.report()
        parts = [part for part in (consumer, loop) if part is not None]
        return ProcessReport(
            live=all(part.live for part in parts),
            ready=all(part.ready for part in parts),
            reasons=tuple(reason for part in parts for reason in part.reasons),
            consumer=consumer,
            alert_loop=loop,
        )

    @contextmanager
    def over(self, settings: Settings) -> Iterator[None]:
        """Shows it on the settings' port and sends their heartbeats, until the block ends. Raises SettingsError."""
        section = settings.heartbeat
        with ExitStack() as stack:
            if settings.metrics.port:
                address = settings.metrics
                stack.enter_context(status_server(self, self.registry, host=address.host, port=address.port))
            if self.health is not None and section.consumer is not None:
                heart = self._heartbeat("consumer", section.consumer, self.health, settings)
                stack.enter_context(beating(heart, interval_s=section.interval_s))
            if self.loop_health is not None and section.alert_loop is not None:
                heart = self._heartbeat("alert_loop", section.alert_loop, self.loop_health, settings)
                stack.enter_context(beating(heart, interval_s=section.interval_s))
            yield

    def _heartbeat(self, sender: Sender, url: str, health: Health | LoopHealth, settings: Settings) -> Heartbeat:
        return Heartbeat(
            sender,
            url,
            withheld=health.withheld,
            counted=self._beats,
            allow_private=settings.heartbeat.allow_private,
            timeout_s=settings.heartbeat.timeout_s,
        )
