"""`tracejudge alerts test|backtest|explain`: what rules would say, would have said, and are about to say."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import click
from pydantic import ValidationError

from tracejudge.alerts import JUDGE_DRIFT_RULE, Promises, SeriesStatus
from tracejudge.alerts.backtest import Backtest, backtest
from tracejudge.alerts.detecting.delay import smallest_drop
from tracejudge.alerts.judges.hold_mark import hold_numbers, hold_says
from tracejudge.alerts.judges.words import moved_words, state_words
from tracejudge.alerts.rules.slices import is_of_trace, is_other, trace_fields
from tracejudge.alerts.series.wording import of_what_fires
from tracejudge.alerts.trial import TrialFile, TrialResult, run_trial
from tracejudge.counted import counted
from tracejudge.errors import SettingsError
from tracejudge.evidence import to_json as evidence_to_json
from tracejudge.scores import Score
from tracejudge.store import Cursor, RateQuery, Store
from tracejudge_consumer.alerting.actions import read_actions
from tracejudge_consumer.commands.alert_now import evidence_now, show_now
from tracejudge_consumer.settings import faults_of, load_settings, read_toml
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED
from tracejudge_consumer.terminal.options import Moment, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, instant, percent, slice_in_words, table, to_json
from tracejudge_consumer.wiring import connect_store, stored_held, stored_judges, stored_series

NO_SERIES: Final = (
    "no series yet: the alert loop (`tracejudge watch`) has read no scores, or there are no [[rules]]; scores rest "
    "before they are folded, a minute at most with the settle_s there is by default"
)


@click.command(
    name="test",
    epilog="""\b
Examples:
  tracejudge alerts test rules_test.toml
  tracejudge alerts test rules_test.toml --json
Example file:
  [[tests]]
  name = "a real fall is reported within a day, and its end"
  judge = "lexical"
  stretches = [{ hours = 120, rate = 0.95 }, { hours = 24, rate = 0.80 }, { hours = 72, rate = 0.95 }]
  expect = [
    { rule = "lexical-drift", kind = "firing", after_h = 120, before_h = 144 },
    { rule = "lexical-drift", kind = "resolved" },
  ]
  [[tests]]
  name = "noise stays silent"
  stretches = [{ hours = 720, rate = 0.95, per_hour = 20 }]
  [[tests]]
  name = "a rule that groups by category reports which one fell"
  stretches = [{ hours = 240, rate = 0.95, slices = [{ share = 0.4, says = { category = "billing" } }] },
    { hours = 24, rate = 0.95, slices = [{ share = 0.4, says = { category = "billing" }, rate = 0.6 }] }]
  expect = [{ rule = "by-category", kind = "firing", group = { category = "billing" } }]

`says` sets fields that rules group by: version, category, stratum, model, prompt_version, index_version, language,
status, "tags.NAME"; next to a stretch's `slices` it applies to all its traffic. Rules come from the settings, or from
[[rules]] in the file. `expect` lists every expected event, in order; only = ["lexical-drift"] checks that rule alone.
Traffic is random but reproducible by `seed` (default 1): among many seeds a few raise a false alarm, within the
promise. Exit status 1 if a test fails.""",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@config_option
@json_option
def try_rules(file: str, config: str, as_json: bool) -> int:
    """Test the rules on simulated traffic against expected events."""
    try:
        trials = TrialFile.model_validate(read_toml(Path(file)))
    except ValidationError as error:
        # The shape of this file stands in our own help; the settings' example does not have it.
        example = "`tracejudge alerts test --help`"
        raise SettingsError([f"{file}: {fault}" for fault in faults_of(error, example=example)]) from error
    rules, promises = trials.rules, Promises()
    if not rules:
        settings = load_settings(config, require_caps=False)
        rules, promises = settings.rules, settings.alerts.promises
    if not rules:
        raise SettingsError([f"{file}: has no [[rules]], nor does {config}: there is nothing to test"])
    try:
        results = [run_trial(trial, rules, promises=promises) for trial in trials.tests]
    except ValueError as error:  # too many rows, or a rule that is not there
        raise SettingsError([f"{file}: {error}"]) from error
    if as_json:
        click.echo(to_json({"tests": results}))
    else:
        for result in results:
            _tell(result)
    return EXIT_FAILED if any(result.faults for result in results) else EXIT_DONE


def _tell(result: TrialResult) -> None:
    click.echo(f"{'FAIL' if result.faults else 'ok  '} {ident(result.name)}")
    for fault in result.faults:
        click.echo(f"     {ident(fault)}")
    if result.faults and result.advice:
        click.echo(f"     {ident(result.advice)}")


@click.command(
    name="backtest",
    epilog="""\b
Example:
  tracejudge alerts backtest --since 30d
Mark real incidents with `tracejudge alerts mark`: alerts outside marked incidents count as false. Rules with a learned
baseline stay silent at the start of the time range.""",
)
@config_option
@json_option
@click.option(
    "--since", type=Moment(), default="30d", show_default=True, help="Start of the time range, by judging time."
)
def try_history(config: str, as_json: bool, since: datetime) -> None:
    """Run the configured rules on stored scores: what would have fired?"""
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        found = backtest(
            settings.rules,
            _scores(store, since),
            promises=settings.alerts.promises,
            incidents=read_actions(store),
            facts=lambda rows: store.traffic.facts(
                {row.key: row.event_time for row in rows}, fields=trace_fields(settings.rules)
            ),
        )
    if as_json:
        click.echo(to_json({"since": since, "backtest": found}))
    else:
        _show(found)


def _scores(store: Store, since: datetime) -> Iterator[Score]:
    cursor, until = Cursor(since, ""), store.now()
    while page := store.scores.since(cursor, until=until, limit=5000, words=False):
        yield from page
        cursor = Cursor(page[-1].judged_at, page[-1].trace_id)


def _show(found: Backtest) -> None:
    out = console()
    out.print(f"{counted(found.rows, 'score')} read")
    for event in found.events:
        out.print(f"{instant(event.served_at)}  {event.kind:<8} {ident(event.series.rule)}: {ident(event.summary)}")
    rows = [
        [
            ident(place.app),
            ident(place.environment),
            f"{place.days:.1f}",
            str(place.alerts),
            str(place.false_alarms),
            f"{place.expected_false_alarms:.2f}",
        ]
        for place in found.places
    ]
    columns = [("app", "left"), ("environment", "left"), ("days", "right"), ("alerts", "right")]
    columns += [("outside incidents", "right"), ("promised false alarms (max)", "right")]
    out.print(table("Alerts", columns, rows))
    for place in found.places:
        if place.unpromised:
            out.print(f"{ident(place.app)}: {place.unpromised} more from classic thresholds, which promise nothing")
    for incident in found.incidents:
        mark = incident.incident
        told = "not detected" if incident.delay_s is None else f"detected after {_span(incident.delay_s)}"
        out.print(f"incident at {instant(mark.start)} ({ident(mark.note) or 'no note'}): {told}")


@click.command(
    name="explain",
    epilog="""\b
Example:
  tracejudge alerts explain
"1 h" and "1 d" are the smallest falls that would be detected within an hour and a day on average, at the judged volume
of the last day; no method can do better with so few traces. A series with half of its app's false-alarm promise
(`[alerts] false_alarms`) needs twice the evidence to fire. For series that fire or are close to it, current evidence is
shown: where the rate fell, retrieval or generation, which traces to read.""",
)
@config_option
@json_option
def explain(config: str, as_json: bool) -> None:
    """How close each series is to firing, and the smallest fall it can detect."""
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        series = [status for status in stored_series(settings, store) if status.key.rule != JUDGE_DRIFT_RULE]
        judges = stored_judges(settings, store)
        held = {event.event_id: event for event in stored_held(store)}
        volumes = {status.key: _per_hour(store, status) for status in series}
        near = evidence_now(settings, store, series)
    found = [
        {
            "series": status,
            "per_hour": volumes[status.key],
            **_visible(status, volumes[status.key]),
            "held_back": hold_numbers(held[status.alert_event_id]) if status.alert_event_id in held else None,
            "evidence": next((evidence_to_json(one) for other, one in near if other is status), None),
        }
        for status in series
    ]
    if as_json:
        told = [{"judge_id": one.judge_id, **one.numbers()} for one in judges]
        click.echo(to_json({"series": found, "judges": told}))
        return
    for one in judges:
        console().print(f"{ident(one.judge_id)} is {state_words(one)}: {ident(moved_words(one))}")
    for event in held.values():
        console().print(f"alert {ident(event.event_id)} of {ident(event.series.rule)}: {hold_says(event)}")
    if not series:
        console().print(NO_SERIES)
        return
    rows = []
    for status, seen in zip(series, found, strict=True):
        rows.append(
            [
                ident(status.key.rule),
                ident(status.key.app),
                ident(status.key.judge_id) + (" (heuristic)" if status.heuristic else ""),
                slice_in_words(status.key.group),
                status.state.replace("_", " ") + (", held back" if status.alert_event_id in held else ""),
                percent(status.baseline),
                percent(status.boundary),
                _share(status),
                of_what_fires(status.evidence) if status.promises else _by_chance(status.chance_per_30d),
                "–" if (volume := volumes[status.key]) is None else f"{volume:.0f}",
                _points(seen["within_hour"]),
                _points(seen["within_day"]),
            ]
        )
    columns = [("rule", "left"), ("app", "left"), ("JudgeId", "left"), ("slice", "left"), ("state", "left")]
    columns += [("baseline", "right")]
    columns += [
        ("boundary", "right"),
        ("promise", "right"),
        ("evidence", "right"),
        ("judged/h", "right"),
    ]
    out = console()
    out.print(
        table(
            "Series: share of the promise, evidence in % of the alarm level, smallest fall detected within 1 h and 1 d",
            [*columns, ("1 h", "right"), ("1 d", "right")],
            rows,
        )
    )
    show_now(out, near)


def _per_hour(store: Store, status: SeriesStatus) -> float | None:
    """Settled verdicts of the series an hour, over the last day; None for that of all values beyond a rule's limit,
    which no filter finds."""
    now, key, wanted = store.now(), status.key, dict(status.key.group)
    if is_other(key):
        return None
    query = RateQuery(
        start=now - timedelta(days=1), end=now, environment=key.environment, app=key.app, judge=key.judge_id,
        version=wanted.get("version"), category=wanted.get("category"),
        also={name: value for name, value in wanted.items() if is_of_trace(name)},
    )  # fmt: skip
    rows = [row for row in store.scores.buckets(query) if wanted.get("stratum", row.stratum) == row.stratum]
    return sum(row.bucket.n for row in rows) / 24.0


def _visible(status: SeriesStatus, per_hour: float | None) -> dict[str, float | None]:
    if status.boundary is None or not per_hour or not status.promises:
        return {"within_hour": None, "within_day": None}
    level = status.baseline if status.baseline is not None else status.boundary
    hour, day = (
        smallest_drop(
            status.boundary,
            level=level,
            within_h=hours,
            per_hour=per_hour,
            alarm_hours=status.alarm_hours,
            phi=status.phi,
        )
        for hours in (1.0, 24.0)
    )
    return {"within_hour": hour, "within_day": day}


def _share(status: SeriesStatus) -> str:
    """How much of how many false alarms is its own."""
    if status.share is None or status.false_alarms is None:
        return "–"
    return f"{100 * status.share:.3g} % of {status.false_alarms}"


def _by_chance(per_30d: float | None) -> str:
    """In place of evidence, for a threshold that gathers none."""
    return "none" if per_30d is None else f"none; {per_30d:.2g} in 30 d by chance"


def _points(drop: object) -> str:
    return f"{100 * drop:.1f} points" if isinstance(drop, float) else "–"


def _span(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
