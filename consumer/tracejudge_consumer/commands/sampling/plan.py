"""`tracejudge sampling plan`: what a policy would bring, tried on stored traffic without a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from math import isfinite
from pathlib import Path
from typing import Final

import click
from pydantic import ValidationError

from tracejudge.counted import counted
from tracejudge.errors import NothingToDecide, SettingsError
from tracejudge.judging import JudgeSpec, estimate
from tracejudge.reports import read_rates
from tracejudge.reports.sampling_plan import (
    Delay,
    Known,
    PlanLine,
    decidable,
    delays,
    in_words,
    stored_signals,
    watched,
    with_signals,
)
from tracejudge.reports.sampling_plan import plan as make_plan
from tracejudge.sampling import Governor, SamplingPolicy, sample
from tracejudge.store import RateQuery, Store, StoredTrace, TraceFilter, Wanted
from tracejudge_consumer.choosing.named_slice import require_slice
from tracejudge_consumer.settings import Settings, faults_of, load_settings, read_toml
from tracejudge_consumer.terminal.options import Moment, Number, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, interval, money, table, to_json
from tracejudge_consumer.wiring import connect_store, sampling_policy

_MOST_TRACES: Final = 20_000

_SLICES: Final[dict[str, Callable[[StoredTrace], str]]] = {
    "app": lambda stored: stored.trace.app,
    "version": lambda stored: stored.trace.version,
    "category": lambda stored: stored.trace.category or "",
}


@click.command(
    name="plan",
    epilog="""\b
Examples:
  tracejudge sampling plan                       the policy of the settings, on the last 7 days
  tracejudge sampling plan --judge faithfulness --per-hour 200
  tracejudge sampling plan --policy new.toml --by category --json

Nothing is judged or changed. Counts, cost and intervals are per day; delays are means, for a fall from today's level.
Slices with too few judged answers are marked.""",
)
@config_option
@json_option
@click.option("--policy", "policy_file", type=click.Path(dir_okay=False), help="File with the [sampling] to try.")
@click.option("--per-hour", type=Number(min=0, min_open=True), help="Budget to try: judged traces per hour.")
@click.option("--per-day-usd", type=Number(min=0, min_open=True), help="Budget to try: USD per day.")
@click.option("--judge", default=None, help="Only this judge.  [default: judges with a model, else all]")
@click.option("--by", "by", type=click.Choice([*_SLICES, "stratum"]), default="app", show_default=True, help="Slices.")
@click.option("--environment", default="production", show_default=True, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--since", type=Moment(), default="7d", show_default=True, help="Start of the time range.")
@click.option("--until", type=Moment(), default=None, help="End of the time range (exclusive).  [default: now]")
@click.option(
    "--min-effective",
    type=Number(min=0),
    default=20.0,
    show_default=True,
    help="Effective samples a slice needs for a rate.",
)
def plan(
    config: str,
    as_json: bool,
    policy_file: str | None,
    per_hour: float | None,
    per_day_usd: float | None,
    judge: str | None,
    by: str,
    environment: str,
    app: str | None,
    since: datetime,
    until: datetime | None,
    min_effective: float,
) -> None:
    """Estimate judged counts, cost, intervals and delays under a changed policy."""
    if per_hour is not None and per_day_usd is not None:
        raise click.UsageError("--per-hour and --per-day-usd exclude each other")
    end = until or datetime.now(timezone.utc)
    if end <= since:
        raise click.BadParameter("is not before --until", param_hint="--since")
    settings = load_settings(config, require_caps=False)
    specs = _specs(settings, judge)
    policy = _policy(settings, policy_file)
    where = TraceFilter(start=since, end=end, environment=environment, app=app)
    shown: list[dict[str, object]] = []
    out = console()
    with connect_store(settings) as store:
        total = store.traces.count(where)
        if not total:
            require_slice(store, environment=environment, app=app)
            raise NothingToDecide(
                "no stored traces in this time and slice; try a longer --since or another --environment"
            )
        looked_at = _traces(store, where, total)
        traces = with_signals(decidable(looked_at, policy))
        if not traces:
            raise NothingToDecide(
                f"the texts of all {counted(total, 'stored trace')} of this time are past their retention, and the "
                "policy uses them or at signals that were not stored; try a shorter --since"
            )
        first = min(stored.trace.event_time for stored in traces)
        days = min((end - since) / timedelta(days=1), max((end - first) / timedelta(days=1), 1.0 / 24.0))
        # Of the time that the plan is of, the traces it can decide about stand for those it cannot.
        within = sum(stored.trace.event_time >= first for stored in looked_at)
        scale = total / len(looked_at) * within / len(traces)
        left_out = len(looked_at) - len(traces)
        for spec in specs:
            tried = _with_goal(policy, spec.name, per_hour, per_day_usd)
            slice_of = _SLICES.get(by) or _stratum_of(tried, spec.name)
            known = _known(store, spec, traces, since, end, environment, app, by=by)
            lines = make_plan(traces, tried, spec.name, days=days, scale=scale, known=known, slice_of=slice_of)
            shown += [_shown(line, settings, spec, app=app) for line in lines]
            if not as_json:
                _print(lines, settings, spec, app=app, by=by, min_effective=min_effective)
    if as_json:
        click.echo(
            to_json(
                {
                    "traces": total,
                    "looked_at": len(traces),
                    "left_out": left_out,
                    "days": days,
                    "by": by,
                    "lines": shown,
                }
            )
        )
        return
    if left_out:
        out.print(
            f"{left_out} of {counted(len(looked_at), 'trace')} left out: their texts are past their retention, and the "
            "policy uses them or at signals that were not stored"
        )
    if len(looked_at) < total:
        out.print(f"from {len(looked_at)} of {counted(total, 'trace')}, chosen by their ids")


def _print(
    lines: Sequence[PlanLine], settings: Settings, spec: JudgeSpec, *, app: str | None, by: str, min_effective: float
) -> None:
    out = console()
    columns = [(by, "left"), ("traces", "right"), ("judged", "right"), ("n_eff", "right"), ("cost", "right")]
    columns += [("rate", "right"), ("95 % of a day", "right"), ("", "left")]
    rows = []
    for line in lines:
        thin = line.effective_per_day < min_effective
        rows.append(
            [
                "all" if line.slice == "" and line is lines[0] else ident(line.slice),
                f"{line.traces_per_day:.0f}",
                f"{line.judged_per_day:.0f}",
                f"{line.effective_per_day:.0f}",
                "–" if line.usd_per_day is None else money(line.usd_per_day),
                f"{100 * line.rate:.1f} %" + ("" if line.rate_known else " assumed"),
                interval(line.low, line.high),
                "too thin" if thin else f"± {100 * line.half_width:.1f} points",
            ]
        )
    heuristic = " (heuristic)" if spec.heuristic else ""
    out.print(table(f"{ident(spec.name)}{heuristic}, per day", columns, rows))
    out.print(in_words(lines[0], _delays(lines[0], settings, spec, app=app)))


def _delays(line: PlanLine, settings: Settings, spec: JudgeSpec, *, app: str | None) -> list[Delay]:
    quality = [rule for rule in settings.rules if rule.budget == "quality"]
    rule = next((rule for rule in quality if rule.judge == spec.name and rule.app in (None, app)), None)
    series = sum(1 for rule in quality if app is None or rule.app in (None, app))
    hours = 720.0
    if rule is not None:
        hours = settings.alerts.promises.hours(rule, environment=rule.environment, app=app)
    return delays(line, watched(rule, level=line.rate, series=series, hours=hours))


def _shown(line: PlanLine, settings: Settings, spec: JudgeSpec, *, app: str | None) -> dict[str, object]:
    found = _delays(line, settings, spec, app=app)
    return {
        **asdict(line),
        "delays": [
            {"drop": one.drop, "hours": one.hours if isfinite(one.hours) else None, "traces": one.traces}
            if isfinite(one.traces)
            else {"drop": one.drop, "hours": None, "traces": None}
            for one in found
        ],
        "in_words": in_words(line, found),
    }


def _specs(settings: Settings, judge: str | None) -> list[JudgeSpec]:
    specs = list(settings.judges)
    if judge is not None:
        specs = [spec for spec in specs if spec.name == judge]
        if not specs:
            names = ", ".join(repr(spec.name) for spec in settings.judges)
            raise click.BadParameter(f"{judge!r} is not one of {names}", param_hint="--judge")
        return specs
    return [spec for spec in specs if spec.calls_model] or specs


def _policy(settings: Settings, policy_file: str | None) -> SamplingPolicy:
    if policy_file is None:
        return sampling_policy(settings)
    values = read_toml(Path(policy_file))
    try:
        tried = SamplingPolicy.model_validate(values.get("sampling", {}))
    except ValidationError as error:
        raise SettingsError([f"{policy_file}: sampling.{fault}" for fault in faults_of(error)]) from error
    unknown = sorted(tried.judge_names() - {spec.name for spec in settings.judges})
    if unknown:
        raise SettingsError([f"{policy_file}: sampling: judge {name!r} is not one of the settings" for name in unknown])
    return tried.with_full_rate(spec.name for spec in settings.judges if not spec.calls_model)


def _with_goal(policy: SamplingPolicy, judge: str, per_hour: float | None, per_day_usd: float | None) -> SamplingPolicy:
    """The policy with the goal of the command line in the place of the judge's governors."""
    if per_hour is None and per_day_usd is None:
        return policy
    goal = Governor(name="command line", judge=judge, max_per_h=per_hour, max_usd_per_day=per_day_usd)
    others = tuple(one for one in policy.governors if one.judge != judge)
    return policy.model_copy(update={"governors": (*others, goal)})


def _stratum_of(policy: SamplingPolicy, judge: str) -> Callable[[StoredTrace], str]:
    return lambda stored: sample(stored.trace, stored_signals(stored), policy, [judge]).stratum or "(the rest)"


def _traces(store: Store, where: TraceFilter, total: int) -> list[StoredTrace]:
    if total <= _MOST_TRACES:
        return [stored for batch in store.traces.stream(where) for stored in batch]
    return store.finder.random(Wanted(where=where), limit=_MOST_TRACES, salt="plan")


def _known(
    store: Store,
    spec: JudgeSpec,
    traces: Sequence[StoredTrace],
    since: datetime,
    end: datetime,
    environment: str,
    app: str | None,
    *,
    by: str,
) -> Known:
    """What the store says of the judge in this time."""
    query = RateQuery(start=since, end=end, environment=environment, app=app, judge=spec.name)
    rates: dict[str, float] = {}
    for line in read_rates(store, query):
        if line.rate is not None and line.rate.judged >= 20 and line.rate.estimate is not None:
            rates[""] = line.rate.estimate  # of several JudgeIds the last
    if by in ("app", "version", "category"):
        grouped = RateQuery(start=since, end=end, environment=environment, app=app, judge=spec.name, group_by=(by,))
        for line in read_rates(store, grouped):
            if line.rate is not None and line.rate.judged >= 20 and line.rate.estimate is not None and line.group[by]:
                rates[line.group[by]] = line.rate.estimate
    effort = store.traffic.effort(query)
    verdicts, usd = sum(row.verdicts for row in effort), sum(row.total_usd for row in effort)
    price: float | None = 0.0
    if spec.calls_model:
        readable = [stored.trace for stored in traces if not stored.texts_expired]
        guessed = estimate([spec], traces=readable[:200])[0]
        price = usd / verdicts if verdicts >= 20 and usd > 0.0 else None
        if price is None and guessed.usd is not None and guessed.traces:
            price = guessed.usd / guessed.traces
    accounted = store.ledger.equation(since, end, environment=environment, app=app)
    lines = [line for line in accounted if line.judge_name == spec.name]
    scored = sum(line.passed + line.failed + line.invalid for line in lines)
    nothing = sum(count for line in lines for why, count in line.decisions.items() if why.value == "not_applicable")
    applicable = scored / (scored + nothing) if scored + nothing >= 50 else 1.0
    return Known(applicable=max(applicable, 0.01), usd=price, rates=rates)
