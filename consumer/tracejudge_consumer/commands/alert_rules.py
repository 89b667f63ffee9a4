"""`tracejudge alerts rules`: each rule with what it promises, or what it costs in alarms by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

from tracejudge.alerts import Rule, SeriesStatus, ThresholdRule, effective_severity
from tracejudge.alerts.event import Severity
from tracejudge.alerts.rules.budget import parts_of
from tracejudge.alerts.rules.chance import false_alarms_per_30d
from tracejudge.alerts.rules.measures import in_words
from tracejudge.alerts.series.wording import percent_points
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.options import Number, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, harmless, ident, table, to_json
from tracejudge_consumer.wiring import connect_store, stored_series


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleShown:
    """One rule. `per_30d` are false alarms: at most so many where `promised`, else so many by chance, at the rate and
    volume of its worst series; None where that is not known yet."""

    name: str
    type: str
    watches: str
    demand: str
    environment: str
    app: str | None
    severity: str
    page_drop: float | None
    budget: str | None
    part: float | None  # of the budget of an (environment, app), over all its series
    promised: bool
    per_30d: float | None
    series: int
    false_alarms: str | None  # the promise that it has a part of
    own_promise: bool  # of the rule itself, not the one of all


@click.command(
    name="rules",
    epilog="""\b
Examples:
  tracejudge alerts rules
  tracejudge alerts rules --rate 0.95 --per-hour 60      false alarms of classic thresholds at this traffic
Rules share a promise: all quality rules of an (environment, app) together raise at most `[alerts] false_alarms`, and
all health rules as many again. A rule with its own `false_alarms` gets the same share of that instead. A threshold on
a window promises nothing; for it the table shows how often it fires by chance at the rate and volume seen so far.""",
)
@config_option
@json_option
@click.option("--rate", type=Number(0.0, 1.0), default=None, help="Pass rate while healthy.")
@click.option("--per-hour", type=Number(0.0, min_open=True), default=None, help="Judged traces per hour.")
def list_rules(config: str, as_json: bool, rate: float | None, per_hour: float | None) -> None:
    """What each rule requires, and what it promises about false alarms."""
    settings = load_settings(config, require_caps=False)
    if (rate is None) != (per_hour is None):
        raise click.UsageError("give both --rate and --per-hour, or neither")
    found: list[SeriesStatus] = []
    if rate is None:
        with connect_store(settings) as store:
            found = stored_series(settings, store)
    shown = [_shown(rule, settings, found, rate=rate, per_hour=per_hour) for rule in settings.rules]
    if as_json:
        click.echo(to_json({"rules": shown}))
        return
    if not shown:
        click.echo("no [[rules]] in the settings: only the health of the judges is monitored")
        return
    rows = [
        [
            ident(one.name),
            harmless(one.watches, limit=80),
            one.demand,
            ident(one.app or "every app") + ("" if one.environment == "production" else f" ({ident(one.environment)})"),
            one.severity + (f" at {percent_points(one.page_drop)}" if one.page_drop else ""),
            _promise(one),
        ]
        for one in shown
    ]
    columns = [("rule", "left"), ("watches", "left"), ("requires", "left"), ("app", "left"), ("severity", "left")]
    console().print(table("Rules", [*columns, ("false alarms in 30 days", "left")], rows))


def watched(rule: Rule) -> str:
    """What the rule counts, and by which fields."""
    what = in_words(rule.measure, at_most=rule.at_most, judge=rule.judge)
    if rule.type == "volume":
        what = f"volume of {rule.judge}"
    return what + (" by " + ", ".join(rule.group_by) if rule.group_by else "")


def in_severity(rule: Rule, severity: Severity) -> str:
    """A ticket, or a page and from which fall on."""
    if severity == "ticket" or rule.type == "volume" or not rule.page_drop:
        return severity
    return f"page for a fall of {percent_points(rule.page_drop)} or more, else ticket"


def _shown(
    rule: Rule, settings: Settings, found: Sequence[SeriesStatus], *, rate: float | None, per_hour: float | None
) -> RuleShown:
    mine = [status for status in found if status.key.rule == rule.name]
    heuristic = any(spec.heuristic for spec in settings.judges if spec.name == rule.judge)
    severity = effective_severity(rule, heuristic=heuristic)
    part: float | None = None
    per_30d: float | None
    if isinstance(rule, ThresholdRule):
        if rate is not None and per_hour is not None:
            n = per_hour * rule.window_span.total_seconds() / 3600.0
            per_30d = false_alarms_per_30d(rate=rate, below=rule.below, n=n, window=rule.window_span)
        else:
            per_30d = max((s.chance_per_30d for s in mine if s.chance_per_30d is not None), default=None)
    else:
        app = rule.app if rule.app is not None else ""
        parts = parts_of(settings.rules, environment=rule.environment, app=app, budget=rule.budget or "quality")
        part = parts.get(rule.name)
        hours = settings.alerts.promises.hours(rule, environment=rule.environment, app=rule.app)
        per_30d = None if part is None else part * 720.0 / hours
    return RuleShown(
        name=rule.name,
        type=rule.type,
        watches=watched(rule),
        demand=rule.demand,
        environment=rule.environment,
        app=rule.app,
        severity=severity,
        page_drop=rule.page_drop if severity == "page" and rule.type != "volume" else None,
        budget=rule.budget,
        part=part,
        promised=rule.budget is not None,
        per_30d=per_30d,
        series=len(mine),
        false_alarms=settings.alerts.promises.of(rule, environment=rule.environment, app=rule.app)
        if rule.budget is not None
        else None,
        own_promise=rule.budget is not None and rule.false_alarms is not None,
    )


def _promise(one: RuleShown) -> str:
    if one.per_30d is None:
        return "by chance: unknown until a window has been judged"
    if one.promised:
        part = f"{100 * (one.part or 0.0):.3g} % of {one.false_alarms}"
        of = "own promise" if one.own_promise else one.budget
        return f"at most {one.per_30d:.2g} ({of}: {part})" + (f", {one.series} series" if one.series > 1 else "")
    return f"{one.per_30d:.2g} by chance"
