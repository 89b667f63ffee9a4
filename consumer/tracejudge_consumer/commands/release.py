"""`tracejudge release check NEW --against OLD`: is the new release no worse than the old one?"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

import click

from tracejudge.counted import counted
from tracejudge.errors import NothingToDecide
from tracejudge.reports import (
    BY_MINUTE_IN_WORDS,
    LEAST_COMPARED,
    WITHIN_FIELDS,
    ReleaseCheck,
    ReleaseLine,
    ReleaseWindow,
    Verdict,
    check_release,
    judge_labels,
)
from tracejudge.scores import LIVE_RUN
from tracejudge.store import RateQuery, is_trace_field
from tracejudge.windows import PassRate
from tracejudge_consumer.choosing.named_slice import require_judge, require_slice
from tracejudge_consumer.choosing.trace_fields import trace_fields, where_option
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED, EXIT_UNDECIDED
from tracejudge_consumer.terminal.options import (
    Moment,
    Number,
    config_option,
    exact_option,
    group_config_option,
    json_option,
)
from tracejudge_consumer.terminal.rendering import console, ident, instant, one_line, percent, table, to_json
from tracejudge_consumer.views.mix import mixes_in_words
from tracejudge_consumer.wiring import connect_store

_STATUS = {Verdict.NO_WORSE: EXIT_DONE, Verdict.WORSE: EXIT_FAILED, Verdict.NOT_ENOUGH: EXIT_UNDECIDED}
_MOST_NAMED: Final = 6  # values left out; --json has more
_WORDS = {Verdict.NO_WORSE: "no worse", Verdict.WORSE: "WORSE", Verdict.NOT_ENOUGH: "not enough yet"}


@click.group(
    name="release",
    epilog="""\b
Examples:
  tracejudge release check v42 --against v41
  tracejudge release check --help              decision rule and exit status""",
)
@group_config_option
def command() -> None:
    """Compare a new release with the old one on live traffic."""


@command.command(
    name="check",
    epilog="""\b
Examples:
  tracejudge release check v42 --against v41
  tracejudge release check v42 --against v41 --app shop --judge faithfulness --max-drop 3 --since 2d
  tracejudge release check v42 --against v41 --within tags.tenant     different tenants, or a different mix
  tracejudge release check v42 --against v41 --where tags.tenant=acme

Exit status: 0 no worse than --max-drop allows, 1 worse, 2 too few judged traces so far, or none.

Both rates are weighted; each judge is compared only with itself. The verdict comes from the interval of the difference:
no worse if all of it lies above -max-drop, worse if all of it lies below. --within compares within the values of a
field that both releases have, each weighted by its share of NEW's traffic; values with fewer than 5 effective samples
on a side are excluded, and nothing is decided if less than 80 % of NEW's traffic remains. Without it, a line says where
a different mix explains a good part of the difference. Decide in advance when to look: repeating the check until the
answer pleases makes any interval too narrow.""",
)
@click.argument("new")
@click.option("--against", "old", required=True, metavar="VERSION", help="Release to compare with.")
@click.option(
    "--max-drop",
    "points",
    type=Number(0, 100, min_open=True, max_open=True),
    default=2.0,
    show_default=True,
    help="Largest acceptable drop, in points.",
)
@config_option
@json_option
@click.option("--environment", default="production", show_default=True, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--judge", default=None, help="Only this judge (name or JudgeId).")
@where_option
@click.option(
    "--within",
    default=None,
    metavar="FIELD",
    help=f"Compare within the values of {', '.join(WITHIN_FIELDS)} or tags.NAME.",
)
@click.option("--since", type=Moment(), default="7d", show_default=True, help="Start of the time range, by event time.")
@click.option("--until", type=Moment(), default=None, help="End of the time range (exclusive).  [default: now]")
@exact_option
@click.option(
    "--min-effective",
    type=Number(min=0),
    default=20.0,
    show_default=True,
    help="Effective samples required on each side.",
)
@click.option(
    "--confidence",
    type=Number(0.5, 1, max_open=True),
    default=0.95,
    show_default=True,
    help="Confidence level of the intervals.",
)
def check(
    new: str,
    old: str,
    points: float,
    config: str,
    as_json: bool,
    environment: str,
    app: str | None,
    judge: str | None,
    also: tuple[str, ...],
    within: str | None,
    since: datetime,
    until: datetime | None,
    exact: bool | None,
    min_effective: float,
    confidence: float,
) -> int:
    """Is release NEW no worse than the old one?"""
    end = until or datetime.now(timezone.utc)
    if new == old:
        raise click.BadParameter(f"{old!r} is the release being checked: name another", param_hint="--against")
    if end <= since:
        raise click.BadParameter("is not before --until", param_hint="--since")
    if within is not None and within not in WITHIN_FIELDS and not is_trace_field(within):
        raise click.BadParameter(f"{within!r} is not {', '.join(WITHIN_FIELDS)} or tags.NAME", param_hint="--within")
    query = RateQuery(start=since, end=end, environment=environment, app=app, judge=judge, also=trace_fields(also))
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        try:
            result = check_release(
                store,
                query,
                new=new,
                old=old,
                allowed_drop=points / 100,
                minimum_effective=min_effective,
                confidence=confidence,
                exact=exact,
                within=within,
            )
        except NothingToDecide as nothing:
            require_judge(store, judge, run_id=LIVE_RUN, configured={spec.name for spec in settings.judges})
            require_slice(store, environment=environment, app=app)
            # A release of five minutes ago: a pipeline must not read "no scores yet" as "worse".
            click.echo(f"{_WORDS[Verdict.NOT_ENOUGH]}: {nothing}", err=True)
            return EXIT_UNDECIDED
    if as_json:
        window = {"start": since, "end": end}
        asked = {"new": new, "old": old, "max_drop": points / 100, "window": window, "where": query.also}
        click.echo(to_json({**asked, "check": result}))
    else:
        where = "".join(f", {ident(name)} {ident(value) or '(none)'}" for name, value in query.also.items())
        _show(new, old, points, confidence, result, asked=f"{instant(since)} to {instant(end)} (UTC){where}")
    return _STATUS[result.verdict]


def _show(new: str, old: str, points: float, confidence: float, result: ReleaseCheck, *, asked: str) -> None:
    names = judge_labels(result.lines)
    rows = [
        [
            ident(names[line.judge_id]),
            *_rate(line.new),
            *_rate(line.old),
            *_differences(line),
            _said(line),
        ]
        for line in result.lines
    ]
    columns = [("judge", "left"), (ident(new), "right"), ("judged", "right"), (ident(old), "right")]
    columns += [("judged", "right"), ("difference", "right")]
    if result.within is not None:
        columns += [(f"within {ident(result.within)}", "right")]
    columns += [(f"{100 * confidence:g} %", "right"), ("", "left")]
    out = console()
    out.print(table(f"{ident(new)} against {ident(old)}, at most {points:g} points worse", columns, rows))
    out.print()
    for said in mixes_in_words(result.lines, names):
        out.print(said)
    for line in result.lines:
        for said in _compared(line, new, names[line.judge_id] if len(result.lines) > 1 else None):
            out.print(said)
    for line in result.lines:
        if _waits_for_old(line):
            out.print(
                f"{ident(names[line.judge_id])}: more of {ident(new)} alone would not decide it, "
                f"more of {ident(old)} may (a longer --since)"
            )
    out.print(f"time range {asked}")
    for window in (result.new, result.old):
        out.print(f"  {_span(window)}")
    if not result.exact:
        out.print(f"{BY_MINUTE_IN_WORDS} --exact reads every row.")
        if result.within is None:
            out.print("The traffic mix was checked by category only; --exact also checks languages and tags.")
    out.print(f"{_WORDS[result.verdict]}")


def _waits_for_old(line: ReleaseLine) -> bool:
    """Whether no number of further traces of the new release would decide: the old one's interval is too wide by
    itself."""
    decided = line.decided
    covered = line.within is None or line.within.compared >= LEAST_COMPARED
    return (
        decided.verdict is Verdict.NOT_ENOUGH and decided.difference is not None and decided.needed is None and covered
    )


def _span(window: ReleaseWindow) -> str:
    traces = "trace" if window.judged == 1 else "traces"
    return (
        f"{ident(window.version)}: {window.judged} judged {traces}, "
        f"served from {instant(window.start)} to {instant(window.end)}"
    )


def _rate(rate: PassRate | None) -> tuple[str, str]:
    return (percent(None), "0") if rate is None else (percent(rate.estimate), str(rate.judged))


def _differences(line: ReleaseLine) -> list[str]:
    """That of the totals, that within slices where it was asked for, and the interval of the one that decides."""
    both = [line.result] if line.within is None else [line.result, line.within.result]
    seen = both[-1].difference
    cells = [percent(None) if one.difference is None else f"{100 * one.difference.value:+.1f}" for one in both]
    # "to", as in `tracejudge compare`: between numbers below 0 a dash reads as one sign more.
    return [*cells, "" if seen is None else f"{100 * seen.low:+.1f} to {100 * seen.high:+.1f}"]


def _compared(line: ReleaseLine, new: str, name: str | None) -> list[str]:
    """What the difference within slices is of, and what it leaves out."""
    if (within := line.within) is None:
        return []
    by = "" if name is None else f"{ident(name)}: "
    values = counted(len(within.slices), "value")
    said = [f"{by}{values} common to both, {percent(within.compared)} of {ident(new)}'s traffic and weighted by it"]
    if within.left_out:
        named = [
            f"{one_line(one.value, limit=40) or '(none)'} {percent(one.share_new)}"
            for one in within.left_out[:_MOST_NAMED]
        ]
        if (more := within.left_out_slices - len(named)) > 0:
            named.append(f"{more} more")
        said.append(f"{by}excluded, too few effective samples on a side: {', '.join(named)}")
    return said


def _said(line: ReleaseLine) -> str:
    decided = line.decided
    words = _WORDS[decided.verdict]
    if decided.needed is not None:
        words += f": needs about {decided.needed} more judged traces, if both rates stay as they look now"
    elif line.within is not None and line.within.compared < LEAST_COMPARED:
        words += f": needs values that cover {percent(LEAST_COMPARED, digits=0)} of the traffic"
    return words
