"""What a gateway counts, in a registry of its own or beside the consumer's."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from tracejudge_consumer.watching.metrics import MetricName, counter, gauge

_SEND_S: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30)


class GatewayMetrics:
    """Thread-safe, as prometheus_client's metrics are."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        of = self.registry
        self.requests = counter(of, "tracejudge_gateway_requests_total", "Requests answered.", "status")
        self.lines = counter(of, "tracejudge_gateway_lines_total", "Lines answered.", "answer")
        self.refused = counter(of, "tracejudge_gateway_refused_total", "Refused lines and requests.", "reason")
        self.held_bytes = gauge(of, "tracejudge_gateway_in_flight_bytes", "Bytes of requests under way.")
        self.connections = gauge(of, "tracejudge_gateway_connections", "Open connections.")
        self.queue_up = gauge(of, "tracejudge_gateway_queue_up", "1 while the queue takes records.")
        send: MetricName = "tracejudge_gateway_send_seconds"
        self.send = Histogram(send, "Time until the queue has a batch.", registry=of, buckets=_SEND_S)
