"""`tracejudge cost`: calls, tokens and money of judging, per judge, app or day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import click

from tracejudge.counted import counted
from tracejudge.store import CostRow
from tracejudge_consumer.choosing.named_run import require_run
from tracejudge_consumer.choosing.named_slice import require_judge_with_calls, require_slice
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import Moment, check_order, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, instant, money, table, to_json
from tracejudge_consumer.wiring import connect_store

_BY: Final[dict[str, Callable[[CostRow], str]]] = {
    "judge": lambda row: row.judge_id,
    "app": lambda row: row.app,
    "day": lambda row: row.day.date().isoformat(),
    "environment": lambda row: row.environment,
    "run": lambda row: row.run_id,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """What one group cost. `usd` adds the calls with a known price; `unpriced` counts the others.

    By judge it is a line for each JudgeId: two of one name are two models or two prompts, at two prices.
    """

    group: dict[str, str]
    calls: int
    failed_calls: int
    input_tokens: int
    output_tokens: int
    usd: float
    unpriced: int


@click.command(
    name="cost",
    epilog="""\b
Examples:
  tracejudge cost                       the last 7 days, by judge
  tracejudge cost --since 30d --by day --by judge
  tracejudge cost --since 24h --by app --json
Every model call counts, including failed ones. A call that may have been billed but gave no answer is counted at its
maximum possible cost; a verdict from the cache costs nothing.""",
)
@config_option
@json_option
@click.option(
    "--since", type=Moment(), default="7d", show_default=True, help="Start of the time range, by start of the call."
)
@click.option("--until", type=Moment(), default=None, help="End of the time range (exclusive).  [default: now]")
@click.option(
    "--by", "by", multiple=True, type=click.Choice(list(_BY)), help="Group by this field; repeatable.  [default: judge]"
)
@click.option("--judge", default=None, help="Only this judge (name or JudgeId).")
@click.option("--app", default=None, help="Only this app.")
@click.option("--environment", default=None, help="Only this environment.  [default: all]")
@click.option("--run", "run_id", default=None, help="Only this run.  [default: all]")
def command(
    config: str,
    as_json: bool,
    since: datetime,
    until: datetime | None,
    by: tuple[str, ...],
    judge: str | None,
    app: str | None,
    environment: str | None,
    run_id: str | None,
) -> None:
    """Cost of judging: calls, tokens, money."""
    check_order(since, until)
    by = tuple(dict.fromkeys(by)) or ("judge",)
    wanted = {"app": app, "environment": environment, "run_id": run_id}
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        rows = [
            row
            for row in store.calls.cost(since, until)
            if judge in (None, row.judge_name, row.judge_id)
            and all(value is None or getattr(row, name) == value for name, value in wanted.items())
        ]
        if not rows:
            if run_id is not None:
                require_run(store, run_id)
            require_judge_with_calls(store, judge, configured={spec.name for spec in settings.judges})
            require_slice(store, environment=environment, app=app)
    lines = cost_lines(rows, by=by)
    (total,) = cost_lines(rows, by=()) or (_sum({}, ()),)
    if as_json:
        click.echo(to_json({"since": since, "until": until, "by": by, "lines": lines, "total": total}))
        return
    out = console()
    if not lines:
        out.print(f"no calls to a model since {instant(since)} UTC in this selection; try a longer --since")
        return
    out.print(cost_table([*lines, total] if len(lines) > 1 else lines, by=by))
    if total.unpriced:
        out.print(
            f"no price is known for {total.unpriced} of {counted(total.calls, 'call')}: set "
            "usd_per_million_input_tokens and usd_per_million_output_tokens of their judge"
        )


def cost_lines(rows: Sequence[CostRow], *, by: Sequence[str]) -> list[CostLine]:
    """The rows added up, a line for each value of `by`, in their order; the dearest first where no day is asked for."""
    groups: dict[tuple[str, ...], list[CostRow]] = {}
    for row in rows:
        groups.setdefault(tuple(_BY[name](row) for name in by), []).append(row)
    lines = [_sum(dict(zip(by, key, strict=True)), of_group) for key, of_group in sorted(groups.items())]
    if "judge" in by:
        lines = [replace(line, group=_with_judge(line.group)) for line in lines]
    return lines if "day" in by else sorted(lines, key=lambda line: (-line.usd, -line.calls))


def _with_judge(group: dict[str, str]) -> dict[str, str]:
    judge_id = group["judge"]
    return {**group, "judge": judge_id.partition("@")[0], "judge_id": judge_id}


def _sum(group: dict[str, str], rows: Sequence[CostRow]) -> CostLine:
    return CostLine(
        group=group,
        calls=sum(row.calls for row in rows),
        failed_calls=sum(row.failed_calls for row in rows),
        input_tokens=sum(row.input_tokens for row in rows),
        output_tokens=sum(row.output_tokens for row in rows),
        usd=sum(row.usd for row in rows),
        unpriced=sum(row.unpriced for row in rows),
    )


def cost_table(lines: Sequence[CostLine], *, by: Sequence[str]) -> object:
    """One row per group, the sum of all last."""
    columns = [(name, "left") for name in by]
    columns += [("calls", "right"), ("failed", "right"), ("tokens in", "right"), ("tokens out", "right")]
    columns += [("cost", "right")]
    ids = {line.group["judge_id"] for line in lines if "judge_id" in line.group}
    often = Counter(judge_id.partition("@")[0] for judge_id in ids)
    rows = []
    for line in lines:
        shown = dict(line.group)
        if often[shown.get("judge", "")] > 1:  # as in every table: in full where two of one name stand in it
            shown["judge"] = shown["judge_id"]
        names = [ident(shown[name]) if name in shown else "" for name in by]
        if not line.group:
            names[0] = "in all"
        known = money(line.usd) if line.unpriced < line.calls or not line.calls else money(None)
        numbers = (line.calls, line.failed_calls, line.input_tokens, line.output_tokens)
        rows.append([*names, *(f"{number:,}" for number in numbers), known])
    return table("Cost of judging", columns, rows)
