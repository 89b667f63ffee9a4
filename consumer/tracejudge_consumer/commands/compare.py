"""`tracejudge compare A B`: two judges or runs on the same traces."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import click

from tracejudge.errors import NotFound
from tracejudge.reports import Agreement, Comparison, Estimate, Side, compare, in_words, settled_labels
from tracejudge.scores import TraceKey
from tracejudge.store import Store, TraceFilter
from tracejudge.windows import PassRate
from tracejudge_consumer.options import Moment, config_option, json_option
from tracejudge_consumer.rendering import console, ident, interval, money, one_line, percent, table, to_json
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.wiring import connect_store


@click.command(
    name="compare",
    epilog="""\b
A and B are RUN or RUN:JUDGE; live traffic is the run `live`. Examples:
  tracejudge compare live:lexical try-1              the live heuristic and a replay's judge
  tracejudge compare live:lexical live:faithfulness  two judges on live traffic
  tracejudge compare try-1 try-2 --since 30d --flips 20 --by category

Where people labelled traces (`tracejudge label`, or labels in an ingested file), both are also held against what the
judge measures: sensitivity, specificity and balanced accuracy. Kappa is agreement beyond chance. p is McNemar's exact
test of the flips.""",
)
@click.argument("a")
@click.argument("b")
@config_option
@json_option
@click.option("--since", type=Moment(), default=None, help="Only traces served from then on.  [default: all]")
@click.option("--until", type=Moment(), default=None, help="Only traces served before.  [default: all]")
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--by", type=click.Choice(["version", "category", "app"]), default=None, help="Slice by this field.")
@click.option("--criterion", default=None, help="Hold both against labels of this.  [default: what each measures]")
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
    by: str | None,
    criterion: str | None,
    kept_flips: int,
) -> None:
    """Pass rates, flips and agreement of A and B on the traces that both judged."""
    with connect_store(load_settings(config)) as store:
        run_a, judge_a = _side(store, a)
        run_b, judge_b = _side(store, b)
        where = TraceFilter(start=since, end=until, environment=environment, app=app)
        pairs = store.scores.pairs(run_a, run_b, judge_a=judge_a, judge_b=judge_b, where=where)
        result = compare(
            pairs,
            kept_flips=kept_flips,
            by=by,
            labels_a=_labels(store, judge_a, criterion),
            labels_b=_labels(store, judge_b, criterion),
        )
    if result.pairs == 0:
        raise NotFound(
            f"no trace has a score in both {a} and {b}: `tracejudge replay` judges stored traces under another judge"
        )
    if as_json:
        click.echo(to_json({"a": a, "b": b, "comparison": result, "in_words": in_words(result)}))
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


def _labels(store: Store, judge: str, criterion: str | None) -> Mapping[TraceKey, bool]:
    """Labels of the criterion, by default of what the judge measures; of none when it is not known here."""
    if criterion is None:
        registered = [one for one in store.judges.all() if judge in (one.judge_name, one.judge_id)]
        criterion = next((str(one.spec["measures"]) for one in reversed(registered) if one.spec.get("measures")), None)
    return settled_labels(store.labels.all(criterion=criterion)) if criterion else {}


def _show(a: str, b: str, result: Comparison) -> None:
    out = console()
    sides = (("A", a, result.a), ("B", b, result.b))
    columns = [("", "left"), ("run:judge", "left"), ("JudgeId", "left"), ("pass rate", "right"), ("95 %", "right")]
    columns += [("invalid", "right"), ("calls", "right"), ("cost", "right")]
    settled = result.agreement.counts.n
    out.print(
        table(f"{settled} traces settled by both, of {result.pairs} judged by both", columns, map(_side_row, sides))
    )
    out.print()
    _show_agreement(result.agreement)
    labelled = [row for row in map(_labelled_row, sides) if row]
    if labelled:
        out.print()
        columns = [("", "left"), ("labels", "right"), ("passes the good", "right"), ("95 %", "right")]
        columns += [("fails the bad", "right"), ("95 %", "right"), ("balanced accuracy", "right"), ("95 %", "right")]
        out.print(table("Against people", columns, labelled))
    if result.slices:
        out.print()
        columns = [("slice", "left"), ("traces", "right"), ("same verdict", "right"), ("B - A", "right")]
        columns += [("95 %", "right"), ("kappa", "right"), ("p", "right")]
        out.print(table("By slice", columns, [_slice_row(*item) for item in result.slices.items()]))
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
    for sentence in in_words(result):
        out.print(sentence)
    out.print("Rates here are of these very traces, unweighted: they compare the judges, not the traffic.")


def _side_row(named: tuple[str, str, Side]) -> list[str]:
    letter, name, side = named
    label = ident(name) + (" (heuristic)" if side.heuristic else "")
    ids = ", ".join(map(ident, side.judge_ids))
    return [letter, label, ids, *_rate(side.rate), str(side.invalid), str(side.calls), money(side.cost_usd)]


def _show_agreement(agreement: Agreement) -> None:
    out = console()
    estimate, bounds = _rate(agreement.same)
    out.print(f"same verdict     {estimate}  ({bounds})")
    if agreement.kappa is not None:
        kappa = agreement.kappa
        out.print(f"kappa            {kappa.value:.2f}  ({kappa.low:.2f} to {kappa.high:.2f})")
    if agreement.difference is not None:
        points, bounds = _points(agreement.difference)
        out.print(f"B - A            {points} points  ({bounds})")
    out.print(f"passed -> failed {agreement.counts.only_a_passed}")
    out.print(f"failed -> passed {agreement.counts.only_b_passed}")
    if agreement.mcnemar_p is not None:
        out.print(f"p (McNemar)      {_p(agreement.mcnemar_p)}")


def _labelled_row(named: tuple[str, str, Side]) -> list[str]:
    letter, _, side = named
    if side.labelled is None:
        return []
    row = [letter, str(side.labelled.counts.n)]
    for estimate in (side.labelled.sensitivity, side.labelled.specificity, side.labelled.balanced):
        row += ["–", "–"] if estimate is None else [percent(estimate.value), interval(estimate.low, estimate.high)]
    return row


def _slice_row(name: str, agreement: Agreement) -> list[str]:
    points = ("–", "–") if agreement.difference is None else _points(agreement.difference)
    kappa = "–" if agreement.kappa is None else f"{agreement.kappa.value:.2f}"
    p = "–" if agreement.mcnemar_p is None else _p(agreement.mcnemar_p)
    return [ident(name) or "(none)", str(agreement.counts.n), _rate(agreement.same)[0], *points, kappa, p]


def _points(difference: Estimate) -> tuple[str, str]:
    return f"{100 * difference.value:+.1f}", f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f}"


def _p(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _rate(rate: PassRate | None) -> tuple[str, str]:
    return ("–", "–") if rate is None else (percent(rate.estimate), interval(rate.low, rate.high))
