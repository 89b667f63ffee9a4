"""What a report says, read from the store: rates over time and by slice, the ledger, alerts, the worst answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from tracejudge.alerts.judges.hold_mark import as_held_now, hold_says
from tracejudge.counted import counted
from tracejudge.pages.page import Section, Tile, page, paragraph, quoted, table
from tracejudge.pages.svg import Bar, Point, share_bars, share_over_time
from tracejudge.reports.compare import Comparison, in_words
from tracejudge.reports.labels import judge_labels
from tracejudge.reports.rates import BY_MINUTE_IN_WORDS, RateLine, read_rates, small_enough
from tracejudge.reports.run_section import run_section
from tracejudge.scores import LIVE_RUN, JudgeId
from tracejudge.store import RateQuery, RunManifest, ScoreFilter, Store
from tracejudge.windows import LEAST_EFFECTIVE, PassRate, enough

_SLICES = ("app", "version", "category")
_MOST_ROWS = 30
_FEW = (
    f"few: fewer than {LEAST_EFFECTIVE:g} effective samples are not enough data for a rate; the line is its interval."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuery:
    """The scores that a report is about. `texts`: quote the worst answers; ids only without it. `exact`: rates from
    every row, or from sums by the minute; None reads every row where they are few enough."""

    title: str
    query: RateQuery
    texts: bool = False
    exact: bool | None = None
    worst: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The file, and the lines of the whole period for a terminal. `exact`: they are from every row."""

    html: str
    exact: bool
    lines: tuple[RateLine, ...]


def make_report(
    store: Store,
    asked: ReportQuery,
    *,
    release: str,
    now: datetime,
    run: RunManifest | None = None,
    comparison: tuple[str, str, Comparison] | None = None,
) -> Report:
    """The report on one run (live by default), with a comparison of (name A, name B) where one is given."""
    query = asked.query
    # As `tracejudge rates` reads it: the same interval for the same traces.
    exact = small_enough(store, query) if asked.exact is None else asked.exact
    whole = read_rates(store, replace(query, step_s=None, group_by=()), exact=exact)
    steps = read_rates(store, replace(query, group_by=()), exact=exact)
    judged, names = [line for line in whole if line.rate is not None], judge_labels(whole)
    sections = [] if exact else [_by_minute()]
    sections += [_judge(line, steps, names[line.judge_id]) for line in judged]
    sections += [_slices(store, query, field, exact=exact) for field in _SLICES]
    if comparison is not None:
        sections.append(_compared(*comparison))
    if query.run_id == LIVE_RUN:
        sections += [_not_judged(store, query), _alerts(store, query)]
    if run is not None:
        sections.append(run_section(run))
    sections += [_worst(store, asked, line.judge_id, shown=names[line.judge_id]) for line in judged]
    window = (
        f"{_day(query.start)} to {_day(query.end)} UTC, run {query.run_id}, environment {query.environment or 'any'}"
    )
    html = page(
        asked.title,
        window,
        tiles=[tile for line in judged for tile in _tiles(line, names[line.judge_id])],
        sections=[section for section in sections if section.parts],
        footer=(
            f"tracejudge {release}, made {now.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC. Rates are weighted by how "
            "each trace was sampled; intervals are 95 %. A heuristic judge calls no model: it shows changes, not truth."
        ),
    )
    return Report(html=html, exact=exact, lines=tuple(whole))


def _named(name: str, *, heuristic: bool) -> str:
    return f"{name} (heuristic)" if heuristic else name


def _by_minute() -> Section:
    said = f"{BY_MINUTE_IN_WORDS} `tracejudge report --exact` creates this report from every row."
    return Section(heading="Source of these figures", parts=(paragraph(said),))


def _tiles(line: RateLine, name: str) -> list[Tile]:
    rate = line.rate
    if rate is None or rate.estimate is None:
        return [Tile(name=name, value="no data")]
    spread = "" if rate.low is None or rate.high is None else f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %"
    if not enough(rate):
        spread = f"not enough data: {spread}"
    return [
        Tile(name=f"{name}: pass rate", value=f"{100 * rate.estimate:.1f} %", note=spread),
        Tile(name=f"{name}: judged", value=f"{rate.judged:,}", note=f"{rate.invalid:,} invalid"),
    ]


def _judge(line: RateLine, steps: Sequence[RateLine], name: str) -> Section:
    mine = [one for one in steps if (one.judge_name, one.judge_id) == (line.judge_name, line.judge_id)]
    points = [
        Point(at=one.window.start, value=None)
        if one.rate is None
        else Point(at=one.window.start, value=one.rate.estimate, low=one.rate.low, high=one.rate.high)
        for one in mine
    ]
    plot = share_over_time(points, label=f"Pass rate of {name} over time")
    said = []
    if line.over_budget:
        said.append(
            paragraph(
                f"{counted(line.over_budget, 'trace was', 'traces were', form=',')} cut off by a cap: the rate claims "
                "nothing about them."
            )
        )
    if line.judge_failed and line.rate is not None:
        said.append(
            paragraph(
                f"The judge failed on {counted(line.rate.invalid, 'trace', form=',')}, which is seldom a random "
                "choice: the rate claims nothing about them."
            )
        )
    return Section(heading=f"{_named(line.judge_id, heuristic=line.heuristic)} over time", parts=(plot, *said))


def _slices(store: Store, query: RateQuery, field: str, *, exact: bool) -> Section:
    lines = [
        line
        for line in read_rates(store, replace(query, step_s=None, group_by=(field,)), exact=exact)
        if line.rate is not None and line.rate.estimate is not None
    ]
    if len({line.group[field] for line in lines}) < 2:
        return Section(heading="", parts=())
    lines.sort(key=lambda line: -(line.rate.judged if line.rate is not None else 0))
    names = judge_labels(lines)
    bars = [
        _bar(f"{line.group[field] or '(none)'}, {names[line.judge_id]}", line.rate)
        for line in sorted(lines[:_MOST_ROWS], key=lambda line: line.judge_name)
        if line.rate is not None
    ]
    said = [paragraph(_FEW)] if any(bar.few for bar in bars) else []
    more = len(lines) - _MOST_ROWS
    said += [paragraph(f"... and {more} more, with fewer judged traces.")] if more > 0 else []
    return Section(heading=f"By {field}", parts=(share_bars(bars, label=f"Pass rates by {field}"), *said))


def _bar(name: str, rate: PassRate) -> Bar:
    value = rate.estimate or 0.0
    low, high = (value if end is None else end for end in (rate.low, rate.high))
    return Bar(name=name, value=value, low=low, high=high, few=not enough(rate))


def _compared(a: str, b: str, comparison: Comparison) -> Section:
    agreement = comparison.agreement
    a, b = _named(a, heuristic=comparison.a.heuristic), _named(b, heuristic=comparison.b.heuristic)
    bars = [
        _bar(name, side.rate)
        for name, side in ((a, comparison.a), (b, comparison.b))
        if side.rate is not None and side.rate.estimate is not None
    ]
    rows = [["traces settled by both", f"{comparison.settled:,}"]]
    rows += [["different answers among them, each counted once", f"{agreement.counts.n:,}"]]
    rows += [["passed, then failed", f"{agreement.counts.only_a_passed:,}"]]
    rows += [["failed, then passed", f"{agreement.counts.only_b_passed:,}"]]
    if agreement.kappa is not None:
        rows.append(["kappa", f"{agreement.kappa.value:.2f} ({agreement.kappa.low:.2f} to {agreement.kappa.high:.2f})"])
    if agreement.mcnemar_p is not None:
        p = agreement.mcnemar_p
        rows.append(["p (McNemar, exact)", "< 0.0001" if p < 0.0001 else f"{p:.4f}"])
    said = [paragraph(sentence) for sentence in in_words(comparison, a=a, b=b)]
    said += [paragraph(_FEW)] if any(bar.few for bar in bars) else []
    plot = share_bars(bars, label=f"Pass rates of {a} and {b} on the same traces")
    return Section(heading=f"{a} and {b}", parts=(plot, table([("", False), ("", True)], rows), *said))


def _not_judged(store: Store, query: RateQuery) -> Section:
    lines = store.ledger.equation(query.start, query.end, environment=query.environment, app=query.app)
    columns = [("judge", False), ("traces", True), ("judged", True), ("why not", False)]
    rows = [
        [
            _named(line.judge_name, heuristic=line.heuristic),
            f"{line.traces:,}",
            f"{line.passed + line.failed + line.invalid:,}",
            ", ".join(
                f"{count:,} {decision.value.replace('_', ' ')}" for decision, count in line.decisions.items() if count
            ),
        ]
        for line in lines
    ]
    heading = f"Every trace accounted for, {_whole_slice(query)}"
    return Section(heading=heading, parts=(table(columns, rows),) if rows else ())


def _whole_slice(query: RateQuery) -> str:
    """What the equation is of, which knows no versions and no categories."""
    app = "all apps" if query.app is None else f"app {query.app}"
    narrower = [name for name in ("version", "category") if getattr(query, name) is not None]
    whole = f", whatever the {' and '.join(narrower)}" if narrower else ""
    return f"{app} in {query.environment or 'all environments'}{whole}"


def _alerts(store: Store, query: RateQuery) -> Section:
    every = store.alert_events.all(since=query.start)
    begun = {str(event.evidence.get("fired_event_id", event.event_id)) for event in every}
    held = begun - {event.evidence.get("fired_event_id") for event in every if event.kind == "resolved"}
    events = [
        as_held_now(event, held)
        for event in every
        if event.at < query.end
        and _concerns(event.series.environment, query.environment)
        and _concerns(event.series.app, query.app)
    ]
    rows = [
        [
            f"{event.at:%Y-%m-%d %H:%M}",
            event.kind.replace("_", " "),
            event.summary if (says := hold_says(event)) is None else f"{event.summary}; {says}",
        ]
        for event in events[:_MOST_ROWS]
    ]
    if not rows:
        return Section(heading="Alerts", parts=(paragraph("None."),))
    shown = table([("when", False), ("", False), ("what", False)], rows)
    return Section(heading="Alerts", parts=(shown, *_left_out(len(events))))


def _concerns(of_series: str, asked: str | None) -> bool:
    """An alert without an environment or app is about all of them: a judge that is gone is gone for everybody."""
    return asked is None or of_series in ("", asked)


def _left_out(rows: int) -> list[str]:
    return [paragraph(f"{rows - _MOST_ROWS:,} more are omitted.")] if rows > _MOST_ROWS else []


def _worst(store: Store, asked: ReportQuery, judge: JudgeId, *, shown: str) -> Section:
    query = asked.query
    chosen = ScoreFilter(
        start=query.start, end=query.end, environment=query.environment, app=query.app, version=query.version,
        category=query.category, judge=judge, run_id=query.run_id, outcome="failed",
    )  # fmt: skip
    found = store.scores.worst(chosen, limit=asked.worst) if asked.worst else []
    if not found:
        return Section(heading="", parts=())
    heading = f"Worst answers by {shown}"
    if not asked.texts:
        rows = [[f"{one.event_time:%Y-%m-%d %H:%M}", one.trace_id, f"{one.score:.2f}"] for one in found]
        return Section(heading=heading, parts=(table([("when", False), ("trace", False), ("score", True)], rows),))
    traces = store.traces.of([one.key for one in found])
    parts = []
    for one in found:
        stored = traces.get(one.key)
        said = [paragraph(f"{one.event_time:%Y-%m-%d %H:%M}, {one.trace_id}, score {one.score:.2f}")]
        if stored is not None and not stored.texts_expired:
            said += [quoted("Question", stored.trace.query), quoted("Answer", stored.trace.response or "")]
        if one.feedback:
            said.append(quoted("The judge", one.feedback, limit=600))
        parts.append(f"<article>{''.join(said)}</article>")
    return Section(heading=heading, parts=tuple(parts))


def _day(at: datetime) -> str:
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M}"


def step_for(start: datetime, end: datetime) -> int:
    """A step, in seconds, that gives a plot some dozens of points."""
    for step in (3600, 6 * 3600, 86_400, 7 * 86_400):
        if (end - start) / timedelta(seconds=step) <= 60:
            return step
    return 30 * 86_400
