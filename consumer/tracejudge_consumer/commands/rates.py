"""`tracejudge rates`: how many answers are good, with the interval that the sample allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime, timezone
from itertools import groupby
from typing import Final

import click
from rich.text import Text

from tracejudge.counted import counted
from tracejudge.reports import BY_MINUTE_IN_WORDS, RateLine, judge_labels, read_rates, small_enough, unseen_fields
from tracejudge.scores import LIVE_RUN
from tracejudge.store import GROUP_FIELDS, TRACE_FIELDS, RateQuery, Store, is_trace_field
from tracejudge.windows import enough
from tracejudge_consumer.choosing.named_run import require_run
from tracejudge_consumer.choosing.named_slice import elsewhere, require_judge, require_slice
from tracejudge_consumer.choosing.trace_fields import trace_fields, where_option
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import (
    Beginning,
    Moment,
    Number,
    Since,
    Span,
    check_order,
    check_windows,
    config_option,
    exact_option,
    json_option,
    slice_options,
    whole_steps,
)
from tracejudge_consumer.terminal.rendering import (
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
from tracejudge_consumer.views.facts import facts_tables
from tracejudge_consumer.wiring import connect_store

_MANY: Final = 40  # below it n_eff far from judged is nothing to wonder at
_WIDE: Final = 110
_FIELDS: Final = ", ".join((*GROUP_FIELDS, *TRACE_FIELDS))


@click.command(
    name="rates",
    epilog="""\b
Examples:
  tracejudge rates                              the last 24 hours, by hour
  tracejudge rates --since 7d --step 1d --by version
  tracejudge rates --since 7d --step all --json
  tracejudge rates --by prompt_version --where tags.tenant=acme --facts

The pass rate weights each judged trace by 1 / its inclusion probability. The 95 % interval is Wilson's, on the
effective sample size. `plain` is the unweighted rate; the two differ where sampling rates differ. Repeats of the same
question and answer count once per hour. The estimate is stratified where stratum sizes are known, that is, where
sampling alone left traces unjudged. Windows of more than 200 000 traces are read from per-minute sums, which support
neither; --exact reads every row of these too.""",
)
@config_option
@json_option
@slice_options
@click.option(
    "--since", "asked", type=Since(), default="24h", show_default=True, help="Start of the time range, by event time."
)
@click.option("--until", type=Moment(), default=None, help="End of the time range (exclusive).  [default: now]")
@click.option("--step", default="1h", show_default=True, help="Window length, or `all` for a single window.")
@click.option("--by", "group_by", multiple=True, metavar="FIELD", help=f"Slice by {_FIELDS} or tags.NAME.")
@where_option
@click.option("--facts", "with_facts", is_flag=True, help="Also show traffic, latency, cost and change per window.")
@click.option("--judge", default=None, help="Only this judge (name or JudgeId).")
@click.option("--run", "run_id", default=LIVE_RUN, show_default=True, help="Run whose scores are read.")
@exact_option
@click.option(
    "--min-effective",
    type=Number(min=0),
    default=20.0,
    show_default=True,
    help="Effective samples a window needs, else: not enough data.",
)
def command(
    config: str,
    as_json: bool,
    environment: str,
    app: str | None,
    version: str | None,
    category: str | None,
    asked: Beginning,
    until: datetime | None,
    step: str,
    group_by: tuple[str, ...],
    also: tuple[str, ...],
    with_facts: bool,
    judge: str | None,
    run_id: str,
    exact: bool | None,
    min_effective: float,
) -> None:
    """Pass rates with confidence intervals, per window and slice."""
    step_s = None if step == "all" else int(Span().convert(step, None, None).total_seconds())
    if step_s is not None and step_s < 1:
        raise click.BadParameter("the shortest window is 1s", param_hint="--step")
    now = datetime.now(timezone.utc)
    since, end = (asked.at, until or now) if step_s is None else whole_steps(asked, until, last=now, step_s=step_s)
    check_order(since, end)
    if step_s is not None:
        check_windows(since, end, step_s)
    for name in group_by:
        parts = name.split(",")
        if len(parts) > 1 and all(part in GROUP_FIELDS or is_trace_field(part) for part in parts):
            # Else it would be taken for a tag of this name, which no trace has.
            raise click.BadParameter(
                f"{name!r} combines several fields; write {' '.join(f'--by {part}' for part in parts)}",
                param_hint="--by",
            )
    if unknown := [name for name in group_by if name not in GROUP_FIELDS and not is_trace_field(name)]:
        raise click.BadParameter(f"{unknown[0]!r} is not {_FIELDS} or tags.NAME", param_hint="--by")
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
        also=trace_fields(also),
    )
    settings = load_settings(config, require_caps=False)
    configured = {spec.name for spec in settings.judges}
    with connect_store(settings) as store:
        exact = small_enough(store, query) if exact is None else exact
        lines = read_rates(store, query, exact=exact)
        cut_off = Counter[str]()
        for one in store.ledger.cut_off(query):
            cut_off[one.judge_name] += one.traces
        hints = [] if lines else _hints(store, query, configured)
        served = store.traffic.served(query) if with_facts or as_json else []
        effort = store.traffic.effort(query) if with_facts or as_json else []
    if as_json:
        facts = {"traffic": served, "effort": effort}
        click.echo(to_json({"query": query, "exact": exact, "lines": lines, "over_budget": cut_off, **facts}))
        return
    out = console()
    if not lines:
        out.print(f"no scores between {instant(since)} and {instant(end)} UTC in this slice (no data, not zero)")
        out.print("try a longer --since, another --environment, or `tracejudge ledger` to see where traces went")
        for said in hints:
            out.print(said)
        return
    out.print(rates_table(lines, group_by=group_by, min_effective=min_effective, bars=out.width >= _WIDE))
    if with_facts:
        for shown in facts_tables(lines, served, effort, group_by=group_by):
            out.print()
            out.print(shown)
    if not exact:
        out.print(f"{BY_MINUTE_IN_WORDS} --exact reads every row.")
    if any(_much_fewer(line) for line in lines):
        out.print(
            "n_eff is less than half of judged: traffic was sampled at different rates, or one answer came many times "
            "(equal ones count once an hour); the intervals go by n_eff"
        )
    if any(line.stratified for line in lines):
        out.print("stratified: the sizes of all strata are known in windows of " + ", ".join(_stratified(lines)))
    for name, traces in cut_off.items():
        out.print(
            f"coverage low: {ident(name)} left {counted(traces, 'trace')} unjudged for its budget. What a budget cuts "
            "off is not random, so the rates of these windows claim nothing about them."
        )
    failed = {line.judge_id: line.judge_name for line in lines if line.judge_failed}
    for judge_id, name in failed.items():
        invalid = sum(line.rate.invalid for line in lines if line.judge_id == judge_id and line.rate is not None)
        out.print(
            f"coverage low: {ident(name)} failed to judge {counted(invalid, 'trace')}. A judge seldom fails at random, "
            "so the rates of these windows claim nothing about them; `tracejudge retry` judges them again."
        )


def _hints(store: Store, query: RateQuery, configured: Collection[str]) -> list[str]:
    """What helps on where nothing was found. Raises NotFound for a name that is not there."""
    require_run(store, query.run_id)
    require_judge(store, query.judge, run_id=query.run_id, configured=configured)
    require_slice(store, environment=query.environment, app=query.app)
    hint = elsewhere(store, environment=query.environment, app=query.app)
    return ([] if hint is None else [hint]) + list(map(ident, unseen_fields(store, query)))


def _much_fewer(line: RateLine) -> bool:
    """Whether there are so many fewer effective samples than judged traces that it needs an explanation."""
    return line.rate is not None and line.rate.judged >= _MANY and line.rate.n_eff < line.rate.judged / 2


def rates_table(lines: list[RateLine], *, group_by: tuple[str, ...], min_effective: float, bars: bool = True) -> object:
    """The lines as a table; windows without data say so instead of showing a zero. `bars` needs a wide terminal."""
    plain = any(differs(line) for line in lines)
    columns = [("window (UTC)", "left"), ("judge", "left"), *((field, "left") for field in group_by)]
    columns += [("pass rate", "right"), ("95 %", "right"), ("", "left")]
    columns += [("plain", "right")] if plain else []
    columns += [("judged", "right"), ("n_eff", "right"), ("invalid", "right")]
    rows = []
    names = judge_labels(lines)
    for line, windows in _runs(lines):
        cells: list[str | Text] = [
            instant(line.window.start)[0 if bars else 5 : 16],
            ident(names[line.judge_id]),
            *(one_line(line.group[field], limit=30) or "–" for field in group_by),
        ]
        rate = line.rate
        if rate is None or rate.estimate is None:
            cells += ["no data", "–", _times(windows, bars)]
        elif not enough(rate, min_effective):
            cells += [
                percent(rate.estimate),
                interval(rate.low, rate.high),
                Text("not enough data" if bars else "few", style="dim"),
            ]
        else:
            shown = bar(rate.estimate) if bars else ""
            cells += [percent(rate.estimate), interval(rate.low, rate.high), shown]
        if line.over_budget or line.judge_failed:
            cells[-1] = Text("coverage low" if bars else "low", style="yellow")
        if plain:
            cells.append("–" if rate is None else percent(rate.plain))
        cells += ["0", "–", "0"] if rate is None else [str(rate.judged), f"{rate.n_eff:.0f}", str(rate.invalid)]
        rows.append(cells)
    return table("Pass rates", columns, rows)


def _times(windows: int, wide: bool) -> str:
    if windows == 1:
        return ""
    return f"{windows} windows" if wide else f"×{windows}"


def _runs(lines: list[RateLine]) -> Iterator[tuple[RateLine, int]]:
    """The lines with 1; of windows without data on end, the first alone and how many there are."""

    def empty(line: RateLine) -> bool:
        return (line.rate is None or (line.rate.judged == 0 and not line.rate.invalid)) and not line.over_budget

    def series(line: RateLine) -> tuple[object, ...]:
        return (empty(line), line.judge_id, *line.group.items())

    for (nothing, *_), run in groupby(lines, key=series):
        found = list(run)
        if nothing:
            yield found[0], len(found)
        else:
            yield from ((line, 1) for line in found)


def _stratified(lines: list[RateLine]) -> list[str]:
    return sorted({ident(line.judge_name) for line in lines if line.stratified})


def differs(line: RateLine) -> bool:
    """True when the weighted and the plain rate differ visibly."""
    rate = line.rate
    return (
        rate is not None
        and rate.estimate is not None
        and rate.plain is not None
        and abs(rate.estimate - rate.plain) >= 0.0005
    )
