"""`tracejudge compare A B`: two judges or runs on the same traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Final

import click

from tracejudge.counted import counted
from tracejudge.errors import NothingToDecide
from tracejudge.reports import (
    Agreement,
    Comparison,
    Estimate,
    Side,
    check_release,
    compare,
    in_words,
    preference,
    served_in,
)
from tracejudge.scores import LIVE_RUN
from tracejudge.store import Pair, RateQuery, TraceFilter
from tracejudge.windows import PassRate
from tracejudge_consumer.choosing.comparable import (
    check_sides,
    choose_cases,
    criterion_of,
    judges_pairs,
    labels_of,
    preferences,
    side_of,
    the_judge,
)
from tracejudge_consumer.choosing.named_slice import require_slice
from tracejudge_consumer.choosing.trace_fields import trace_fields, where_option
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import Moment, check_order, config_option, json_option
from tracejudge_consumer.terminal.rendering import (
    console,
    ident,
    interval,
    money,
    one_line,
    percent,
    progress_bar,
    table,
    to_json,
)
from tracejudge_consumer.views.canary import show_canary
from tracejudge_consumer.views.preference import show_preference
from tracejudge_consumer.wiring import connect_store

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)

_ONLY_LIVE: Final = "--where is only for versions on different live traffic: use --by version, without --cases"


@click.command(
    name="compare",
    epilog="""\b
A and B are RUN or RUN:JUDGE; live traffic is the run `live`. With --cases, or with --by version if no run has that
name, they are VERSIONS. Examples:
  tracejudge compare live:lexical try-1              the live heuristic and a replay's judge
  tracejudge compare live:lexical live:faithfulness  two judges on live traffic
  tracejudge compare try-1 try-2 --since 30d --flips 20 --by category
  tracejudge compare v41 v42 --by version --since 2d        a canary: two versions on different live traffic
  tracejudge compare v41 v42 --by version --where tags.tenant=acme
  tracejudge compare v41 v42 --cases --judge faithfulness   two pipelines on the same questions (case_id)
  tracejudge compare v41 v42 --cases --judge duel --run duel-1   by a pairwise judge: whose answers are better?

Where human labels exist (`tracejudge label`, or labels in an ingested file), both are also compared with them, for what
the judge measures: sensitivity, specificity and balanced accuracy. Kappa is agreement beyond chance. p is McNemar's
exact test on the flips. Copies of an answer to the same question and passages count once.""",
)
@click.argument("a")
@click.argument("b")
@config_option
@json_option
@click.option("--cases", is_flag=True, help="A and B are versions of the app that answered the same questions.")
@click.option("--judge", default=None, help="With --cases: judge whose verdicts are compared.  [default: the only one]")
@click.option("--run", "case_run", default=LIVE_RUN, show_default=True, help="With --cases: run of the verdicts.")
@click.option("--since", type=Moment(), default=None, help="Only traces served at or after this time.  [default: all]")
@click.option("--until", type=Moment(), default=None, help="Only traces served before this time.  [default: all]")
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--by", type=click.Choice(["version", "category", "app"]), default=None, help="Slice by this field.")
@where_option
@click.option(
    "--criterion", default=None, help="Compare both with labels of this criterion.  [default: what each measures]"
)
@click.option(
    "--flips",
    "kept_flips",
    type=click.IntRange(0, 1000),
    default=6,
    show_default=True,
    help="Maximum number of flips shown.",
)
def command(
    a: str,
    b: str,
    config: str,
    as_json: bool,
    cases: bool,
    judge: str | None,
    case_run: str,
    since: datetime | None,
    until: datetime | None,
    environment: str | None,
    app: str | None,
    by: str | None,
    also: tuple[str, ...],
    criterion: str | None,
    kept_flips: int,
) -> None:
    """Pass rates, flips and agreement of A and B on the traces that both judged."""
    if not cases and (judge is not None or case_run != LIVE_RUN):
        raise click.UsageError("--judge and --run need --cases; otherwise write RUN:JUDGE for A and B")
    check_order(since, until)
    fields = trace_fields(also)
    if fields and (cases or by != "version"):
        raise click.UsageError(_ONLY_LIVE)
    where = TraceFilter(start=since, end=until, environment=environment, app=app)
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        if environment is not None or app is not None:
            require_slice(store, environment=environment, app=app)
        if cases:
            by_judge = the_judge(store, judge, case_run)
            if judges_pairs(store, by_judge, case_run, settings.judges):
                verdicts = preferences(store, a, b, judge=by_judge, run_id=case_run, where=where)
                show_preference(a, b, preference(verdicts, by=by), as_json=as_json)
                return
            chosen = choose_cases(store, a, b, judge=by_judge, run_id=case_run, where=where)
            criterion = criterion or criterion_of(store, case_run, chosen.judge)
            labels = labels_of(store, criterion)
            result = compare(chosen.pairs, kept_flips=kept_flips, by=by, labels_a=labels, labels_b=labels)
        elif by == "version" and not {a.partition(":")[0], b.partition(":")[0]} & set(store.scores.run_ids()):
            if a == b:
                raise click.UsageError(f"A and B are both version {a!r}: name two versions")
            query = RateQuery(
                start=since or _BEGINNING, end=until or store.now(), environment=environment, app=app, also=fields
            )
            found = check_release(store, query, new=b, old=a, allowed_drop=0.02)
            if environment is None:  # the one that has both: `release check` takes production where none is named
                where = replace(where, environment=served_in(store, query, {a, b}, "environment")[0])
            show_canary(a, b, found, chosen=_chosen(where, fields), as_json=as_json)
            return
        elif fields:
            raise click.UsageError(_ONLY_LIVE)
        else:
            side_a, side_b = side_of(store, a), side_of(store, b)
            a, b = (f"{side.run_id}:{side.judge}" for side in (side_a, side_b))  # `live` alone says not by whom
            measured = check_sides(store, side_a, side_b, criterion)
            pairs = store.scores.pairs(
                side_a.run_id, side_b.run_id, judge_a=side_a.judge, judge_b=side_b.judge, where=where
            )
            result = compare(
                _counted_aloud(pairs),
                kept_flips=kept_flips,
                by=by,
                labels_a=labels_of(store, measured.a),
                labels_b=labels_of(store, measured.b),
            )
        if result.pairs == 0:
            raise NothingToDecide(
                f"no trace has a score in both {a} and {b}: `tracejudge replay` judges stored traces with another judge"
            )
    said = in_words(result, answers=cases)
    if as_json:
        told = {"a": a, "b": b, "comparison": result, "in_words": said}
        click.echo(to_json({**told, "only_a": chosen.only_a, "only_b": chosen.only_b} if cases else told))
        return
    _show(a, b, result, cases=cases, said=said)
    if cases and (chosen.only_a or chosen.only_b):
        click.echo(
            f"Not compared: {counted(chosen.only_a, 'question')} with verdicts of A only, {chosen.only_b} of B only."
        )


def _counted_aloud(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs, with a line that says how many have come: a month of them takes a while."""
    with progress_bar() as progress:
        task = progress.add_task("comparing traces", total=None)
        for number, pair in enumerate(pairs, start=1):
            yield pair
            if number % 1000 == 0:
                progress.update(task, completed=number)


def _chosen(where: TraceFilter, fields: Mapping[str, str]) -> list[str]:
    """The options that chose this traffic, for `release check`."""
    start = where.start.isoformat() if where.start is not None else None
    end = where.end.isoformat() if where.end is not None else None
    said = [("--environment", where.environment), ("--app", where.app), ("--since", start), ("--until", end)]
    said += [("--where", f"{name}={value}") for name, value in fields.items()]
    return [word for option, value in said if value for word in (option, value)]


def _show(a: str, b: str, result: Comparison, *, cases: bool, said: list[str]) -> None:
    out = console()
    sides = (("A", a, result.a), ("B", b, result.b))
    one = "question" if cases else "trace"
    columns = [
        ("", "left"),
        ("version" if cases else "run:judge", "left"),
        ("JudgeId", "left"),
        ("pass rate", "right"),
        ("95 %", "right"),
    ]
    columns += [("invalid", "right"), ("calls", "right"), ("cost", "right"), ("ms a trace", "right")]
    title = f"{counted(result.settled, one)} settled by both, of {result.pairs} judged by both"
    if (copies := result.settled - result.agreement.counts.n) > 0:
        answers = counted(result.agreement.counts.n, "different answer")
        title += f"; {answers}, each counted once ({counted(copies, 'copy', 'copies')})"
    out.print(table(title, columns, map(_side_row, sides)))
    out.print()
    _show_agreement(result.agreement)
    labelled = [row for row in map(_labelled_row, sides) if row]
    if labelled:
        out.print()
        columns = [("", "left"), ("labels", "right"), ("passes the good", "right"), ("95 %", "right")]
        columns += [("fails the bad", "right"), ("95 %", "right"), ("balanced accuracy", "right"), ("95 %", "right")]
        out.print(table("Agreement with human labels", columns, labelled))
    if result.slices:
        out.print()
        columns = [
            ("slice", "left"),
            ("questions" if cases else "answers", "right"),
            ("same verdict", "right"),
            ("B - A", "right"),
        ]
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
    for sentence in said:
        out.print(sentence)
    compared = "the pipelines on these questions" if cases else "the judges"
    out.print(f"Rates count each of these answers once, unweighted: they compare {compared}, not the traffic.")


def _side_row(named: tuple[str, str, Side]) -> list[str]:
    letter, name, side = named
    label = ident(name) + (" (heuristic)" if side.heuristic else "")
    ids = ", ".join(map(ident, side.judge_ids))
    took = "–" if side.latency_ms is None else f"{side.latency_ms:,.0f}"
    return [letter, label, ids, *_rate(side.rate), str(side.invalid), str(side.calls), money(side.cost_usd), took]


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
