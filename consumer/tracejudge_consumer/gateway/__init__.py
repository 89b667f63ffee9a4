"""HTTP ingest in front of whichever queue is configured: `POST /v1/traces`, with an answer per line."""

from tracejudge_consumer.gateway.limits import GatewayLimits
from tracejudge_consumer.gateway.server import Gateway

__all__ = ["Gateway", "GatewayLimits"]
