"""`tracejudge watch`: the alert loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime, timezone

import click

from tracejudge.alerts.event import AlertEvent
from tracejudge.counted import counted
from tracejudge.errors import ServiceUnavailable
from tracejudge_consumer.alerting.loop import AlertLoop
from tracejudge_consumer.alerting.resting import Resting
from tracejudge_consumer.alerting.staleness import is_old
from tracejudge_consumer.anchors.watch import AnchorWatch, watching_anchors
from tracejudge_consumer.commands.consume import set_up_logging
from tracejudge_consumer.process.shutdown import cut_off, stop_on_signals
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import instant, to_json
from tracejudge_consumer.terminal.saying import say
from tracejudge_consumer.views.alert_line import alert_line, news_of
from tracejudge_consumer.watching.watched import Watch
from tracejudge_consumer.wiring import build_alert_loop, build_anchor_watch, connect_store


@click.command(
    name="watch",
    epilog="""\b
Examples:
  tracejudge watch              forever; several may run, one is the leader
  tracejudge watch --once       one round, for cron

Scores count only after a settling time (`[alert_loop] settle_s`, 30 s by default). --once reports how many are still
settling; with --json, if there are any, a final line {"resting": {"scores": ..., "all_count_at": ...}} does.""",
)
@config_option
@json_option
@click.option("--once", is_flag=True, help="Run one round, then exit.")
def command(config: str, as_json: bool, once: bool) -> None:
    """Run the alert loop on stored scores."""
    settings = load_settings(config)
    set_up_logging(settings)
    if not settings.rules:
        click.echo("note: no [[rules]] in the settings, so only the health of the judges is monitored", err=True)

    # The terminal channel, where there is one, says in its own words what it delivers.
    silent = not as_json and any(notifier.type == "terminal" for notifier in settings.notifiers)

    def tell(event: AlertEvent) -> None:
        line = to_json(event) if as_json else alert_line(event, delivered=silent)
        if line is not None:
            say(line)

    stop = threading.Event()
    if as_json:
        # One stream of JSON on stdout: the terminal channel would write its lines between.
        others = tuple(notifier for notifier in settings.notifiers if notifier.type != "terminal")
        settings = settings.model_copy(update={"notifiers": others})
    with connect_store(settings, create=not once) as store:
        watch = Watch(alert_loop=True)
        anchors = build_anchor_watch(settings, store)
        loop = build_alert_loop(settings, store, health=watch.loop_health, anchors=anchors)
        if once:
            with closing(loop):
                events = loop.tick()
                if anchors is not None and loop.leading:
                    anchors.run_due()  # folded by the next round
                for event in news_of(events):
                    tell(event)
                if not loop.leading:
                    click.echo("another process is the leader of this store's alert loop: nothing to do here", err=True)
                else:
                    _tell_the_rest(events, loop.resting(), as_json=as_json)
            return
        with stop_on_signals(stop), watch.over(settings), cut_off(store, stop), closing(loop):
            tick_s = settings.alert_loop.tick_s
            run_alert_loop(loop, stop, tick_s=tick_s, tell=tell, watch=watch, anchors=anchors)


def _tell_the_rest(events: Sequence[AlertEvent], rest: Resting | None, *, as_json: bool) -> None:
    """What one round does not say by its events: that there are none, and which scores it has not looked at yet."""
    if as_json:
        if rest is not None:
            click.echo(to_json({"resting": rest}))
        return
    if not events:
        click.echo("no series changed state; `tracejudge alerts` shows all states")
    if old := sum(is_old(event, now=datetime.now(timezone.utc)) for event in events):
        click.echo(
            f"{counted(old, 'event is', 'events are')} of answers served more than a day ago: `tracejudge alerts` "
            "lists them, and channels hear of an alert that lasts once no more such answers are being judged"
        )
    if rest is not None:
        click.echo(
            f"{counted(rest.scores, 'score is', 'scores are')} still settling and not evaluated yet: all of them "
            f"count from {instant(rest.all_count_at)} UTC on; `tracejudge watch --once` again then"
        )


def run_alert_loop(
    loop: AlertLoop,
    stop: threading.Event,
    *,
    tick_s: float,
    tell: Callable[[AlertEvent], None],
    watch: Watch,
    anchors: AnchorWatch | None = None,
) -> None:
    """Ticks until `stop` is set, and makes due rounds of anchors beside it while it leads. While the store is away it
    waits: what it missed is folded later, with one result."""
    with watching_anchors(anchors, stop, leading=lambda: loop.leading, tick_s=tick_s):
        _tick_on(loop, stop, tick_s=tick_s, tell=tell, watch=watch)


def _tick_on(
    loop: AlertLoop, stop: threading.Event, *, tick_s: float, tell: Callable[[AlertEvent], None], watch: Watch
) -> None:
    health, metrics = watch.loop_health, watch.loop_metrics
    try:
        while not stop.is_set():
            try:
                events = loop.tick()
            except ServiceUnavailable as error:
                logging.getLogger(__name__).warning("alert loop waits: %s", error)
                if health is not None and metrics is not None:
                    health.round_failed(str(error))
                    metrics.round_failed()
            else:
                if health is not None and metrics is not None:
                    health.round_done(leading=loop.leading, mute=loop.mute)
                    metrics.round_done(events, leading=loop.leading, channels=loop.channels, held=loop.held)
                for event in news_of(events):
                    tell(event)
            stop.wait(tick_s)
    finally:
        if health is not None:
            health.ended()
