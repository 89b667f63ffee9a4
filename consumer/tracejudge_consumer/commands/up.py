"""`tracejudge up`: consumer and alert loop in one process, and the gateway where it has a port."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, closing

import click

from tracejudge.alerts.event import AlertEvent
from tracejudge_consumer.commands.consume import consumer_of, set_up_logging, tell
from tracejudge_consumer.commands.gateway import serve
from tracejudge_consumer.commands.watch import run_alert_loop
from tracejudge_consumer.process.collector import settled_heap
from tracejudge_consumer.process.shutdown import StoppedAtStart, cut_off, stop_on_signals
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.settings import load_settings, without_password
from tracejudge_consumer.terminal.exit_status import EXIT_DONE
from tracejudge_consumer.terminal.options import config_option
from tracejudge_consumer.terminal.saying import perhaps_unread, say
from tracejudge_consumer.views.alert_line import alert_line
from tracejudge_consumer.watching.watched import Watch
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
  tracejudge up                      until Ctrl-C; other commands work alongside it

With gateway.port set it also accepts traces over HTTP. An embedded store is owned by this process, which serves it
to other processes on loopback.""",
)
@config_option
def command(config: str) -> int:
    """Run consumer and alert loop in one process."""
    settings = load_settings(config)
    set_up_logging(settings)
    stop = threading.Event()
    terminal = any(notifier.type == "terminal" for notifier in settings.notifiers)
    over = threading.Event()  # the consumer has finished: now the others have to
    failures: list[BaseException] = []
    watch = Watch(consumer=True, alert_loop=True)

    def tell_event(event: AlertEvent) -> None:
        line = alert_line(event, delivered=terminal)
        if line is not None:
            say(line)

    def ingest() -> None:
        from tracejudge_consumer.gateway.metrics import GatewayMetrics

        serve(settings, stop, metrics=GatewayMetrics(watch.registry))

    threads: list[threading.Thread] = []

    def beside(work: Callable[[], None], name: str) -> None:
        def whole() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised again by the main thread, which must stop too
                failures.append(error)
                stop.set()

        threads.append(threading.Thread(target=whole, name=name))
        threads[-1].start()

    with (
        connect_store(settings, create=True, patience_s=CONSUMER_STORE_PATIENCE_S) as store,
        stop_on_signals(stop) as signals,
        ExitStack() as stack,
    ):
        if settings.gateway.port:
            beside(ingest, "tracejudge-gateway")
        say(f"up: {without_password(settings.queue)} -> {without_password(settings.store)}; Ctrl-C stops")
        try:
            with signals.starting():
                pipeline = stack.enter_context(consumer_of(settings, store, quiet=True, watch=watch))
                anchors = build_anchor_watch(settings, store)
                loop = build_alert_loop(settings, store, health=watch.loop_health, anchors=anchors)

            def alert() -> None:
                with cut_off(store, over), closing(loop):
                    tick_s = settings.alert_loop.tick_s
                    run_alert_loop(loop, stop, tick_s=tick_s, tell=tell_event, watch=watch, anchors=anchors)

            beside(alert, "tracejudge-alerts")
            with settled_heap():
                report = pipeline.run(stop=stop)
        except StoppedAtStart:
            report = PipelineReport(ended="stopped")
        finally:
            stop.set()
            over.set()
            for thread in threads:
                thread.join()
    if failures:
        raise failures[0]
    with perhaps_unread():
        tell(report, settings)
    return EXIT_DONE
