"""`tracejudge rates`: how many answers are good, with the interval that the sample allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timezone
from typing import Final

import click

from tracejudge.reports import BY_MINUTE_IN_WORDS, read_rates, small_enough, unseen_fields
from tracejudge.scores import LIVE_RUN
from tracejudge.store import GROUP_FIELDS, TRACE_FIELDS, RateQuery, Store, is_trace_field
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
from tracejudge_consumer.terminal.rendering import console, ident, instant, to_json
from tracejudge_consumer.views.facts import facts_tables
from tracejudge_consumer.views.rates import rates_table, remarks
from tracejudge_consumer.wiring import connect_store

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
question and answer count once per hour; traces of one conversation count as independent. The estimate is stratified
where stratum sizes are known, that is, where sampling alone left traces unjudged. Windows of more than 200 000 traces
are read from per-minute sums, which support neither; --exact reads every row of these too.""",
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
    step_s = _seconds(step)
    now = datetime.now(timezone.utc)
    since, end = (asked.at, until or now) if step_s is None else whole_steps(asked, until, last=now, step_s=step_s)
    check_order(since, end)
    if step_s is not None:
        check_windows(since, end, step_s)
    _check_fields(group_by)
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
    for said in remarks(lines, cut_off):
        out.print(said)


def _seconds(step: str) -> int | None:
    """None for "all"."""
    if step == "all":
        return None
    seconds = int(Span().convert(step, None, None).total_seconds())
    if seconds < 1:
        raise click.BadParameter("the shortest window is 1s", param_hint="--step")
    return seconds


def _check_fields(group_by: Sequence[str]) -> None:
    for name in group_by:
        parts = name.split(",")
        if len(parts) > 1 and all(part in GROUP_FIELDS or is_trace_field(part) for part in parts):
            # Else it would be taken for a tag of this name, which no trace has.
            raise click.BadParameter(
                f"{name!r} combines several fields; write {' '.join(f'--by {part}' for part in parts)}",
                param_hint="--by",
            )
        if name not in GROUP_FIELDS and not is_trace_field(name):
            raise click.BadParameter(f"{name!r} is not {_FIELDS} or tags.NAME", param_hint="--by")


def _hints(store: Store, query: RateQuery, configured: Collection[str]) -> list[str]:
    """What helps on where nothing was found. Raises NotFound for a name that is not there."""
    require_run(store, query.run_id)
    require_judge(store, query.judge, run_id=query.run_id, configured=configured)
    require_slice(store, environment=query.environment, app=query.app)
    hint = elsewhere(store, environment=query.environment, app=query.app)
    return ([] if hint is None else [hint]) + list(map(ident, unseen_fields(store, query)))
