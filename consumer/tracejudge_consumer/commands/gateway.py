"""`tracejudge gateway`: traces over HTTP into the queue."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import click

from tracejudge_consumer.commands.consume import set_up_logging
from tracejudge_consumer.process.shutdown import stop_on_signals
from tracejudge_consumer.settings import Settings, load_settings, without_password
from tracejudge_consumer.terminal.options import config_option
from tracejudge_consumer.terminal.saying import say
from tracejudge_consumer.wiring import build_gateway

if TYPE_CHECKING:
    from tracejudge_consumer.gateway.metrics import GatewayMetrics

DEFAULT_PORT: Final = 4380


@click.command(
    name="gateway",
    epilog="""\b
Examples:
  tracejudge gateway                            on 127.0.0.1:4380, for apps on this machine
  export TRACEJUDGE_INGEST_KEY=$(openssl rand -hex 32)
  tracejudge gateway --host 0.0.0.0             for apps on other machines: requires a key
\b
  curl -sS http://127.0.0.1:4380/v1/traces -H "Authorization: Bearer $TRACEJUDGE_INGEST_KEY" \\
    -H 'Content-Type: application/x-ndjson' --data-binary @answers.jsonl

Each line gets a result: accepted (the queue has it), refused (with field, value, limit and remedy) or unavailable (send
it again). Other languages: producer_sdk/OTHER_LANGUAGES.md.""",
)
@config_option
@click.option("--host", default=None, help="Address to listen on.  [default: gateway.host]")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="[default: gateway.port, or 4380]")
def command(config: str, host: str | None, port: int | None) -> None:
    """Accept traces over HTTP from apps in any language."""
    settings = load_settings(config, require_caps=False)
    set_up_logging(settings)
    stop = threading.Event()
    with stop_on_signals(stop):
        serve(settings, stop, host=host, port=port if port is not None else settings.gateway.port or DEFAULT_PORT)


def serve(
    settings: Settings,
    stop: threading.Event,
    *,
    host: str | None = None,
    port: int | None = None,
    metrics: GatewayMetrics | None = None,
) -> None:
    """Runs the gateway of the settings until `stop` is set; says where it listens."""
    from tracejudge_consumer.gateway.running import run_gateway

    address = settings.gateway.host if host is None else host
    scheme = "http" if settings.gateway.tls_cert_file is None else "https"

    def listening(bound: int) -> None:
        name = f"[{address}]" if ":" in address else address
        say(f"gateway: {scheme}://{name}:{bound}/v1/traces -> {without_password(settings.queue)}")

    run_gateway(lambda: build_gateway(settings, host=host, port=port, metrics=metrics), stop, listening=listening)
