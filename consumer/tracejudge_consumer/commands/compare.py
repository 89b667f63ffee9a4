"""`tracejudge compare A B`: two judges or runs on the same traces."""

from __future__ import annotations

from datetime import datetime

import click

from tracejudge.errors import NotFound
from tracejudge.reports import Comparison, compare
from tracejudge.store import Store, TraceFilter
from tracejudge.windows import PassRate
from tracejudge_consumer.options import Moment, config_option, json_option
from tracejudge_consumer.rendering import console, ident, interval, one_line, percent, table, to_json
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.wiring import connect_store


@click.command(
    name="compare",
    epilog="""\b
A and B are RUN or RUN:JUDGE; live traffic is the run `live`. Examples:
  tracejudge compare live:lexical try-1              the live heuristic and a replay's judge
  tracejudge compare live:lexical live:faithfulness  two judges on live traffic
  tracejudge compare try-1 try-2 --since 30d --flips 20""",
)
@click.argument("a")
@click.argument("b")
@config_option
@json_option
@click.option("--since", type=Moment(), default=None, help="Only traces served from then on.  [default: all]")
@click.option("--until", type=Moment(), default=None, help="Only traces served before.  [default: all]")
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option(
    "--flips", "kept_flips", type=click.IntRange(0, 1000), default=6, show_default=True, help="Flips to show."
)
def command(
    a: str,
    b: str,
    config: str,
    as_json: bool,
    since: datetime | None,
    until: datetime | None,
    environment: str | None,
    app: str | None,
    kept_flips: int,
) -> None:
    """Pass rates, flips and agreement of A and B on the traces that both judged."""
    with connect_store(load_settings(config)) as store:
        run_a, judge_a = _side(store, a)
        run_b, judge_b = _side(store, b)
        where = TraceFilter(start=since, end=until, environment=environment, app=app)
        pairs = store.scores.pairs(run_a, run_b, judge_a=judge_a, judge_b=judge_b, where=where)
        result = compare(pairs, kept_flips=kept_flips)
    if result.pairs == 0:
        raise NotFound(
            f"no trace has a score in both {a} and {b}: `tracejudge replay` judges stored traces under another judge"
        )
    if as_json:
        click.echo(to_json({"a": a, "b": b, "comparison": result}))
        return
    _show(a, b, result)


def _side(store: Store, text: str) -> tuple[str, str]:
    """RUN:JUDGE, or RUN alone where the run has one judge. Raises NotFound."""
    run_id, _, judge = text.partition(":")
    if judge:
        return run_id, judge
    names = store.scores.judge_names(run_id)
    if not names:
        raise NotFound(f"run {run_id!r} has no scores; runs with scores: {', '.join(store.scores.run_ids()) or 'none'}")
    if len(names) > 1:
        raise NotFound(f"run {run_id!r} has scores of {len(names)} judges; name one: {run_id}:{names[0]}")
    return run_id, names[0]


def _show(a: str, b: str, result: Comparison) -> None:
    out = console()
    rows = []
    for side, name, ids, heuristic, rate, invalid in (
        ("A", a, result.judge_ids_a, result.heuristic_a, result.rate_a, result.invalid_a),
        ("B", b, result.judge_ids_b, result.heuristic_b, result.rate_b, result.invalid_b),
    ):
        label = ident(name) + (" (heuristic)" if heuristic else "")
        estimate, bounds = _numbers(rate)
        rows.append([side, label, ", ".join(map(ident, ids)), estimate, bounds, str(invalid)])
    columns = [("", "left"), ("run:judge", "left"), ("JudgeId", "left")]
    columns += [("pass rate", "right"), ("95 %", "right"), ("invalid", "right")]
    out.print(table(f"{result.both_settled} traces settled by both, of {result.pairs} judged by both", columns, rows))
    estimate, bounds = _numbers(result.agreement)
    out.print()
    out.print(f"same verdict     {estimate}  ({bounds})")
    out.print(f"passed -> failed {result.passed_to_failed}")
    out.print(f"failed -> passed {result.failed_to_passed}")
    if result.flips:
        out.print()
        flips = [
            [
                ident(flip.key.trace_id),
                f"{flip.a.outcome.value} -> {flip.b.outcome.value}",
                one_line(flip.a.feedback, limit=56),
                one_line(flip.b.feedback, limit=56),
            ]
            for flip in result.flips
        ]
        out.print(table("Flips", [("trace", "left"), ("", "left"), ("A says", "left"), ("B says", "left")], flips))
        out.print("next: tracejudge show TRACE_ID")
    out.print()
    out.print("Rates here are of these very traces, unweighted: they compare the judges, not the traffic.")


def _numbers(rate: PassRate | None) -> tuple[str, str]:
    return ("–", "–") if rate is None else (percent(rate.estimate), interval(rate.low, rate.high))
