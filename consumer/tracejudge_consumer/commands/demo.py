"""`tracejudge demo`: the main job on real traces, on this machine alone."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.text import Text

from tracejudge.alerts.event import AlertEvent
from tracejudge.counted import counted
from tracejudge.errors import SettingsError
from tracejudge.reports import read_rates
from tracejudge.store import RateQuery, ScoreFilter, Store
from tracejudge.windows import floor_to
from tracejudge_consumer.commands.consume import consumer_of
from tracejudge_consumer.commands.worst import show_worst, with_traces
from tracejudge_consumer.demo import DemoStream, demo_stream
from tracejudge_consumer.demo.settings_text import MINIMUM, demo_settings
from tracejudge_consumer.demo.stream import BAD_VERSION, GOOD_VERSION
from tracejudge_consumer.process.collector import settled_heap
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED
from tracejudge_consumer.terminal.rendering import console, harmless, interval, money, percent, progress_bar
from tracejudge_consumer.views.alert_event import show_event
from tracejudge_consumer.views.ledger import dead_letters, equation
from tracejudge_consumer.views.rates import rates_table
from tracejudge_consumer.wiring import build_alert_loop, build_transport, connect_store
from tracejudge_sdk import TraceClient
from tracejudge_sdk.trace import Trace

_MARK: Final = ".tracejudge-demo"
_STEP_S: Final = 4 * 3600


@click.command(
    name="demo",
    epilog="""\b
Examples:
  tracejudge demo
  tracejudge demo --folder /tmp/look

It writes only into the folder and starts afresh each time. Afterwards every command works on it:
  tracejudge rates -c tracejudge-demo/tracejudge.toml --since 3d --step 4h""",
)
@click.option("--folder", type=click.Path(file_okay=False), default="tracejudge-demo", show_default=True)
def command(folder: str) -> int:
    """Run the whole flow on bundled traces: no API key, no service."""
    out = console()
    path = _fresh(Path(folder))
    config = path / "tracejudge.toml"
    config.write_text(demo_settings(), encoding="utf-8")
    settings = load_settings(config)
    now = datetime.now(timezone.utc)
    stream = demo_stream(floor_to(now, step_s=60) - timedelta(minutes=1))
    _introduce(out, stream)
    with connect_store(settings, create=True) as store:
        store.labels.insert(stream.labels)
        _heading(out, "1. A healthy stretch")
        silent = _stretch(out, settings, store, stream.healthy, broken=True)
        if silent:
            out.print("this must not happen: an alert fired on the healthy stretch")
        _heading(out, f"2. Release {stream.bad[0].version} goes out; some of its answers belong to other questions")
        fired = _stretch(out, settings, store, stream.bad, broken=False)
        _summary(out, store, stream, fired, now=now)
    _next_steps(out, config, fired)
    return EXIT_DONE if fired and not silent else EXIT_FAILED


def _fresh(path: Path) -> Path:
    """The folder, empty. Raises SettingsError for one that holds something which is not a demo's."""
    if path.exists():
        if any(path.iterdir()) and not (path / _MARK).exists():
            raise SettingsError([f"{path}: contains files that are not from a demo; name another with --folder"])
        shutil.rmtree(path)
    path.mkdir(parents=True)
    (path / _MARK).touch()
    return path


def _introduce(out: Console, stream: DemoStream) -> None:
    total = len(stream.healthy) + len(stream.bad)
    out.print(
        f"{len(stream.healthy)} real, human-labelled answers (MTRAG cloud and government documentation, HAGRID) form "
        f"the healthy stretch; {len(stream.bad)} of them are used a second time, under new ids, as a bad release in "
        f"which {stream.swapped} answers belong to other questions. Event times are spaced over the last "
        f"{total * 3 / 60:.0f} hours. One unreadable record is planted among them."
    )
    out.print(
        "The judge is `lexical`: a heuristic without a model, which looks for the answer's words in the passages. The "
        f"rule (not below {100 * MINIMUM:g} %) was set on other data, not on this stream."
    )


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="bold"))


def _stretch(
    out: Console, settings: Settings, store: Store, traces: Sequence[Trace], *, broken: bool
) -> list[AlertEvent]:
    """Logs the traces through the SDK, consumes them, and lets the alert loop look; its firing events."""
    _log(settings, traces)
    if broken:
        # A record from a producer that does not keep the contract: it must end as a dead letter, with its reason.
        transport = build_transport(settings)
        transport.send([("broken", b'{"schema_version": 1, "kind": "trace", "trace_id": "broken"}')])
        transport.close(5.0)
    with consumer_of(settings, store, quiet=False) as pipeline, settled_heap():
        report = pipeline.run(until_idle=True)
    out.print(
        f"logged and consumed {counted(report.records, 'record')}: {report.passed} passed, {report.failed} failed, "
        f"{sum(report.ledger.values())} not judged, {counted(report.dead, 'dead letter')}"
    )
    loop = build_alert_loop(settings, store, settle_s=0.0)
    try:
        events = [event for event in loop.tick() if event.kind == "firing"]
    finally:
        loop.close()
    if not events:
        out.print(Text("alerts: silent", style="green"))
    for event in events:
        said = f"ALERT ({event.severity}{', heuristic' if event.heuristic else ''}): {harmless(event.summary)}"
        out.print(Text(said, style="bold red"))
    return events


def _log(settings: Settings, traces: Sequence[Trace]) -> None:
    """Through the SDK, as a service would; waits for room, since a demo is faster than traffic."""
    client = TraceClient(queue=settings.queue, app=traces[0].app)
    columns = (TextColumn("logging through the SDK"), BarColumn(), MofNCompleteColumn())
    with progress_bar(*columns) as progress:
        task = progress.add_task("", total=len(traces))
        for number, trace in enumerate(traces, start=1):
            client.log_trace(trace)
            if number % 200 == 0:
                client.flush(30.0)
            progress.advance(task)
        flushed = client.flush(30.0)
    client.close(10.0)
    stats = client.stats()
    if not flushed or stats.sent != len(traces):
        raise RuntimeError(f"the SDK sent {stats.sent} of {len(traces)} traces: {stats}")


def _summary(out: Console, store: Store, stream: DemoStream, fired: list[AlertEvent], *, now: datetime) -> None:
    start = floor_to(stream.healthy[0].event_time, step_s=_STEP_S)
    end = now + timedelta(hours=1)
    _heading(out, "3. Every trace accounted for")
    for line in store.ledger.equation(start, end):
        out.print(f"{equation(line)}; not included: {dead_letters(store.dead_letters.counts(start, end))}")
    _heading(out, "4. Pass rates by event time")
    query = RateQuery(start=start, end=end, step_s=_STEP_S)
    windows = [line for line in read_rates(store, query) if line.window.start < now]
    out.print(rates_table(windows, group_by=(), min_effective=20.0, bars=out.width >= 110))
    out.print(
        "`plain` ignores sampling: government questions were sampled at rate 0.5, so each counts twice in `pass rate`."
    )
    for version in (GOOD_VERSION, BAD_VERSION):
        for release in read_rates(store, RateQuery(start=start, end=end, version=version)):
            rate = release.rate
            if rate is not None:
                shown = f"{percent(rate.estimate)} ({interval(rate.low, rate.high)})"
                out.print(f"{version}: {shown}, plain {percent(rate.plain)}, {rate.judged} judged")
    _heading(out, "5. The alert and its evidence")
    for event in fired:
        show_event(out, event)
    _heading(out, "6. The worst three of the bad release")
    where = ScoreFilter(start=start, end=end, version=BAD_VERSION, outcome="failed")
    show_worst(out, with_traces(store, store.scores.worst(where, limit=3)))
    _heading(out, "7. What it cost")
    rows = store.calls.cost(start)
    spent = sum(row.usd for row in rows)
    out.print(f"{counted(sum(row.calls for row in rows), 'call')} to a model, {money(spent)}: `lexical` needs none")


def _next_steps(out: Console, config: Path, fired: list[AlertEvent]) -> None:
    _heading(out, "Next")
    typed = program()
    for line in (
        f"{typed} rates  -c {config} --since 28h --step 7h --by category",
        f"{typed} worst  -c {config} --since 3d",
        f"{typed} ledger -c {config} --since 3d",
        f"{typed} alerts -c {config}",
        f"{typed} init                     your own settings; then run doctor and follow the README",
    ):
        out.print("  " + line)
    if not fired:
        out.print("the bad release was not detected: please report this with the lines above")


def program() -> str:
    """What to type for this program: its path where the shell would not find it by name, as after `make demo`."""
    typed = Path(sys.argv[0])
    return shlex.quote(str(typed)) if typed.name == "tracejudge" and shutil.which(typed.name) is None else "tracejudge"
