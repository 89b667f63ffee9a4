"""`tracejudge ledger`: what became of every trace, per judge."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Final

import click

from tracejudge.counted import counted
from tracejudge.scores import LIVE_RUN, RESERVED_RUNS, SHADOW_RUN, Decision
from tracejudge.store import LedgerLine, TraceFilter
from tracejudge_consumer.choosing.named_run import require_run
from tracejudge_consumer.choosing.named_slice import require_slice
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED
from tracejudge_consumer.terminal.options import Moment, check_order, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, instant, to_json
from tracejudge_consumer.views.ledger import dead_letters, dead_table, equation, label, ledger_table, of_hour
from tracejudge_consumer.views.not_applicable import lacking_hint, reasons_in_words
from tracejudge_consumer.wiring import connect_store

_OF_ALL_TRAFFIC: Final = frozenset({LIVE_RUN, SHADOW_RUN})


@click.command(
    name="ledger",
    epilog="""\b
Examples:
  tracejudge ledger --since 7d
  tracejudge ledger --since 24h --hourly --json
  tracejudge ledger --app shop --environment production
Exit status: 0 every trace is accounted for, 1 some are not (neither judged, nor a reason recorded),
64 no such run, app or environment.""",
)
@config_option
@json_option
@click.option(
    "--since", type=Moment(), default="24h", show_default=True, help="Start of the time range, by event time."
)
@click.option(
    "--until", type=Moment(), default=None, help="End of the time range (exclusive).  [default: 10 min ahead]"
)
@click.option("--run", "run_id", default=LIVE_RUN, show_default=True, help="Run to account for.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--environment", default=None, help="Only this environment.  [default: all]")
@click.option("--hourly", is_flag=True, help="Print one line per hour.")
def command(
    config: str,
    as_json: bool,
    since: datetime,
    until: datetime | None,
    run_id: str,
    app: str | None,
    environment: str | None,
    hourly: bool,
) -> int:
    """Account for every trace, per judge."""
    # Services' clocks may run a little ahead of ours; their traces belong to the present too.
    end = until or datetime.now(timezone.utc) + timedelta(minutes=10)
    check_order(since, until)
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        lines = store.ledger.equation(since, end, run_id=run_id, hourly=hourly, environment=environment, app=app)
        places = store.dead_letters.by_partition(since, end)
        if not lines:
            require_run(store, run_id)
            require_slice(store, environment=environment, app=app)
        later = 0
        if until is None:
            later = store.traces.count(TraceFilter(start=end, environment=environment, app=app))
        run = None if run_id in RESERVED_RUNS else store.runs.get(run_id)
    # A run that ended has a verdict or a reason for all it chose; the other traces of that time are no gap. Nor is
    # what nobody complained about, or asked for by hand.
    chosen = run_id in RESERVED_RUNS - _OF_ALL_TRAFFIC or (run is not None and run.finished_at is not None)
    rest = "not selected" if chosen else "UNACCOUNTED"
    # A judge that was taken out of the settings, or on trial or off it, owes nothing for the traces since.
    owing = {spec.name for spec in settings.judges if spec.shadow == (run_id == SHADOW_RUN)}
    lines = [line for line in lines if line.judge_name in owing or line.unaccounted < line.traces]
    owed = [line for line in lines if line.judge_name in owing or run_id not in _OF_ALL_TRAFFIC]
    gaps = [line for line in owed if line.unaccounted]
    gaps = gaps if rest == "UNACCOUNTED" else []
    dead: Counter[str] = Counter()
    for place in places:
        dead[place.reason] += place.count
    hints = _hints(lines, settings)
    if as_json:
        facts = {"since": since, "until": end, "run": run_id, "environment": environment, "app": app, "lines": lines}
        facts["dated_later"] = later
        click.echo(to_json({**facts, "dead_letters": dead, "dead_letters_by_partition": places, "hints": hints}))
        return EXIT_FAILED if gaps else EXIT_DONE
    out = console()
    if lines:
        out.print(ledger_table(lines, rest=rest.lower()))
        for line in lines:
            if line.hour is None:
                out.print(f"{label(line)}: {equation(line, rest=rest)}")
    else:
        where = "" if app is environment is None else " in this slice"
        out.print(f"no traces between {instant(since)} and {instant(end)} UTC{where}; try a longer --since")
    # What could not be read names no app: none of them may pass for one of the slice's, or for none.
    whose = "" if app is environment is None or not dead else ", of all apps and environments"
    out.print(f"not included: {dead_letters(dead)}{whose}, by read time")
    if later:
        out.print(
            f"not included: {counted(later, 'trace', 'traces')} dated later: a service's clock is ahead, or it sends "
            "local time as UTC; `tracejudge find` shows the latest with their apps"
        )
    if places:
        out.print(dead_table(places, hourly=hourly))
    for said in _remarks(lines, hints=hints, gaps=gaps, remedy=_remedy(run_id)):
        out.print(said)
    return EXIT_FAILED if gaps else EXIT_DONE


def _remarks(
    lines: Sequence[LedgerLine], *, hints: Sequence[str], gaps: Sequence[LedgerLine], remedy: str
) -> Iterator[str]:
    """Why traces have no verdict, what waits, and what is missing."""
    for line in lines:
        if line.not_applicable:
            yield f"not applicable to {label(line)}{of_hour(line)}: {reasons_in_words(line.not_applicable)}"
    for hint in hints:
        yield f"hint: {hint}"
    for line in lines:
        if waiting := line.decisions.get(Decision.UNDECIDED, 0):
            yield (
                f"{counted(waiting, 'trace is', 'traces are')} waiting for {label(line)}{of_hour(line)}: judged once "
                "it is available again"
            )
    for line in gaps:
        yield (
            f"GAP: {counted(line.unaccounted, 'trace is', 'traces are')} unaccounted for by {label(line)}"
            f"{of_hour(line)}: {remedy}"
        )


def _hints(lines: Sequence[LedgerLine], settings: Settings) -> list[str]:
    """Where to look for what nearly all traces of a judge lack, over all hours together."""
    judged: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        judged[line.judge_name] += line.passed + line.failed + line.invalid
        reasons[line.judge_name].update(line.not_applicable)
    found = [lacking_hint(name, reasons[name], judged=judged[name], settings=settings) for name in sorted(reasons)]
    return [hint for hint in found if hint is not None]


def _remedy(run_id: str) -> str:
    if run_id in RESERVED_RUNS:
        return "still being judged, or lost; check again when the consumer is idle"
    return f"not selected for run {ident(run_id)}, or not judged yet; repeat the command that started it to continue"
