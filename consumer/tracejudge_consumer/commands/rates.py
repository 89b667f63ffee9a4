"""`tracejudge rates`: how many answers are good, with the interval that the sample allows."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Final

import click
from rich.text import Text

from tracejudge.reports import RateLine, read_rates
from tracejudge.scores import LIVE_RUN
from tracejudge.store import GROUP_FIELDS, RateQuery
from tracejudge.windows import enough, floor_to
from tracejudge_consumer.options import Moment, Span, config_option, json_option, slice_options
from tracejudge_consumer.rendering import (
    bar,
    console,
    ident,
    instant,
    interval,
    one_line,
    percent,
    table,
    to_json,
)
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.wiring import connect_store

_WIDE: Final = 110


@click.command(
    name="rates",
    epilog="""\b
Examples:
  tracejudge rates                              the last 24 hours, hour by hour
  tracejudge rates --since 7d --step 1d --by version
  tracejudge rates --since 7d --step all --json

The estimate weights each judged trace by 1 / its chance of being judged. The interval is Wilson's, on the
effective sample size. Where `plain` differs from it, sampling kept some traffic more often than other.""",
)
@config_option
@json_option
@slice_options
@click.option("--since", type=Moment(), default="24h", show_default=True, help="From when on, by event time.")
@click.option("--until", type=Moment(), default=None, help="Up to when, exclusive.  [default: now]")
@click.option("--step", default="1h", show_default=True, help="Length of a window, or `all` for one.")
@click.option("--by", "group_by", multiple=True, type=click.Choice(GROUP_FIELDS), help="Slice by this field.")
@click.option("--judge", default=None, help="Only this judge, by name or by JudgeId.")
@click.option("--run", "run_id", default=LIVE_RUN, show_default=True, help="Scores of this run.")
@click.option("--min-effective", default=20.0, show_default=True, help="Below it a line says: not enough data.")
def command(
    config: str,
    as_json: bool,
    environment: str,
    app: str | None,
    version: str | None,
    category: str | None,
    since: datetime,
    until: datetime | None,
    step: str,
    group_by: tuple[str, ...],
    judge: str | None,
    run_id: str,
    min_effective: float,
) -> None:
    """Pass rates with intervals, per window and slice."""
    step_s = None if step == "all" else int(Span().convert(step, None, None).total_seconds())
    if step_s is not None and step_s < 1:
        raise click.BadParameter("the shortest window is 1s", param_hint="--step")
    end = until or datetime.now(timezone.utc)
    if step_s is not None:
        # Whole steps, so that the same window shows the same traces in every call.
        since = floor_to(since, step_s=step_s)
        end = floor_to(end, step_s=step_s) + timedelta(seconds=step_s) if until is None else end
    if end <= since:
        raise click.BadParameter("is not before --until", param_hint="--since")
    query = RateQuery(
        start=since,
        end=end,
        step_s=step_s,
        environment=environment,
        app=app,
        judge=judge,
        version=version,
        category=category,
        run_id=run_id,
        group_by=group_by,
    )
    with connect_store(load_settings(config)) as store:
        lines = read_rates(store, query)
        cut_off = Counter[str]()
        for one in store.ledger.cut_off(query):
            cut_off[one.judge_name] += one.traces
        judges = [] if lines else store.scores.judge_names(run_id)
    if as_json:
        click.echo(to_json({"query": query, "lines": lines, "over_budget": cut_off}))
        return
    out = console()
    if not lines:
        out.print(f"no scores between {instant(since)} and {instant(end)} UTC in this slice: no data, not zero")
        out.print("try a longer --since, another --environment, or `tracejudge ledger` to see where traces went")
        if judges and judge is not None and judge.partition("@")[0] not in judges:
            out.print(f"run {ident(run_id)} has scores of {', '.join(map(ident, judges))}; none of {ident(judge)}")
        return
    out.print(rates_table(lines, group_by=group_by, min_effective=min_effective, bars=out.width >= _WIDE))
    for name, traces in cut_off.items():
        out.print(
            f"coverage low: {ident(name)} left {traces} traces unjudged for its budget. What a budget cuts off is not "
            "random, so the rates of these windows claim nothing about them."
        )


def rates_table(lines: list[RateLine], *, group_by: tuple[str, ...], min_effective: float, bars: bool = True) -> object:
    """The lines as a table; windows without data say so instead of showing a zero. `bars` needs a wide terminal."""
    plain = any(differs(line) for line in lines)
    columns = [("window (UTC)", "left"), ("judge", "left"), *((field, "left") for field in group_by)]
    columns += [("pass rate", "right"), ("95 %", "right"), ("", "left")]
    columns += [("plain", "right")] if plain else []
    columns += [("judged", "right"), ("n_eff", "right"), ("invalid", "right")]
    rows = []
    for line in lines:
        cells: list[str | Text] = [
            instant(line.window.start)[0 if bars else 5 : 16],
            ident(line.judge_name) + (" (heuristic)" if line.heuristic else ""),
            *(one_line(line.group[field], limit=30) or "–" for field in group_by),
        ]
        rate = line.rate
        if rate is None or rate.estimate is None:
            cells += ["no data", "–", ""]
        elif not enough(rate, min_effective):
            cells += [
                percent(rate.estimate),
                interval(rate.low, rate.high),
                Text("not enough data" if bars else "few", style="dim"),
            ]
        else:
            shown = bar(rate.estimate) if bars else ""
            cells += [percent(rate.estimate), interval(rate.low, rate.high), shown]
        if line.over_budget:
            cells[-1] = Text("coverage low" if bars else "low", style="yellow")
        if plain:
            cells.append("–" if rate is None else percent(rate.plain))
        cells += ["0", "–", "0"] if rate is None else [str(rate.judged), f"{rate.n_eff:.0f}", str(rate.invalid)]
        rows.append(cells)
    return table("Pass rates", columns, rows)


def differs(line: RateLine) -> bool:
    """True when the weighted and the plain rate differ visibly."""
    rate = line.rate
    return (
        rate is not None
        and rate.estimate is not None
        and rate.plain is not None
        and abs(rate.estimate - rate.plain) >= 0.0005
    )
