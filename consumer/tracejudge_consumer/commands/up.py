"""`tracejudge up`: consumer and alert loop in one process, and the gateway where it has a port."""

from __future__ import annotations

import threading

import click

from tracejudge.alerts.event import AlertEvent
from tracejudge_consumer.cli import EXIT_DONE
from tracejudge_consumer.commands.consume import run_consumer, set_up_logging, tell
from tracejudge_consumer.commands.gateway import serve
from tracejudge_consumer.commands.watch import run_alert_loop
from tracejudge_consumer.options import config_option
from tracejudge_consumer.rendering import harmless
from tracejudge_consumer.settings import load_settings, without_password
from tracejudge_consumer.shutdown import stop_on_signals
from tracejudge_consumer.watching import Watch
from tracejudge_consumer.wiring import (
    CONSUMER_STORE_PATIENCE_S,
    build_alert_loop,
    build_anchor_watch,
    connect_store,
)


@click.command(
    name="up",
    epilog="""\b
Examples:
  tracejudge up                      until Ctrl-C; `tracejudge rates` and the rest work beside it

With gateway.port set it takes traces over HTTP too. With an embedded store this process owns it and serves it on
loopback to every other one.""",
)
@config_option
def command(config: str) -> int:
    """Run consumer and alert loop in one process."""
    settings = load_settings(config)
    set_up_logging(settings)
    stop = threading.Event()
    terminal = any(notifier.type == "terminal" for notifier in settings.notifiers)
    failures: list[BaseException] = []
    watch = Watch(consumer=True, alert_loop=True)
    with connect_store(settings, create=True, patience_s=CONSUMER_STORE_PATIENCE_S) as store, stop_on_signals(stop):

        def tell_event(event: AlertEvent) -> None:
            if not terminal:
                click.echo(f"{event.kind}: {harmless(event.summary)}")

        def alert() -> None:
            try:
                anchors = build_anchor_watch(settings, store)
                loop = build_alert_loop(settings, store, health=watch.loop_health)
                tick_s = settings.alert_loop.tick_s
                try:
                    run_alert_loop(loop, stop, tick_s=tick_s, tell=tell_event, watch=watch, anchors=anchors)
                finally:
                    loop.close()
            except BaseException as error:  # noqa: BLE001 - raised again by the main thread, which must stop too
                failures.append(error)
                stop.set()

        def ingest() -> None:
            from tracejudge_consumer.gateway.metrics import GatewayMetrics

            try:
                serve(settings, stop, metrics=GatewayMetrics(watch.registry))
            except BaseException as error:  # noqa: BLE001 - as above
                failures.append(error)
                stop.set()

        threads = [threading.Thread(target=alert, name="tracejudge-alerts")]
        if settings.gateway.port:
            threads.append(threading.Thread(target=ingest, name="tracejudge-gateway"))
        for thread in threads:
            thread.start()
        click.echo(f"up: {without_password(settings.queue)} -> {without_password(settings.store)}; Ctrl-C stops")
        try:
            report = run_consumer(settings, store, stop=stop, until_idle=False, quiet=True, watch=watch)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    if failures:
        raise failures[0]
    tell(report)
    return EXIT_DONE
