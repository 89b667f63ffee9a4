"""Every metric that any of our processes exports, in one registry."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from tracejudge.judging.calls.circuit import AVAILABLE
from tracejudge_consumer.gateway.metrics import GatewayMetrics
from tracejudge_consumer.watching.watched import Watch


def all_metrics() -> CollectorRegistry:
    """The registry of `tracejudge up` with a gateway and one judge."""
    watch = Watch(consumer=True, alert_loop=True)
    assert watch.metrics is not None
    watch.metrics.watch_circuits(lambda: {"lexical": AVAILABLE})
    GatewayMetrics(watch.registry)
    return watch.registry
