"""From a fired alert and the store to its evidence: what changed, where, in which half of the system, and what to read.

Only rows judged up to the alert are looked at, in event time: the same alert gives the same evidence whenever and
wherever it is asked for, as long as the rows are kept. At most `MOST_ROWS` rows of each period are read, chosen by a
hash of the trace id; rates, decompositions and worst traces are of these. The time before reaches back 14 days, to the
end of the last incident, or as far as `MOST_BEFORE` judged traces go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from tracejudge.alerts import Action, AlertEvent
from tracejudge.alerts.durations import parse_false_alarms
from tracejudge.alerts.rules.slices import is_of_trace, is_other
from tracejudge.alerts.watched_time import watched_time
from tracejudge.comparing.paired import Estimate
from tracejudge.comparing.unpaired import difference
from tracejudge.evidence.appeared import Appeared, appeared
from tracejudge.evidence.reading import Reading, read
from tracejudge.evidence.resampled import Resampled
from tracejudge.evidence.slicing import bucket_of, cut
from tracejudge.evidence.standing_out import Finding, SlicedBy, mix_first, mix_of, split, standing_out, without_copies
from tracejudge.evidence.track_record import TrackRecord, track_record
from tracejudge.evidence.worst import WorstTrace, worst_traces
from tracejudge.pages.svg import Point
from tracejudge.scores import Bucket, JudgeId
from tracejudge.store import JudgedQuery, JudgedRow, RateQuery, ScoreFilter, Store, Verdict
from tracejudge.windows import PassRate, enough, pass_rate

MOST_ROWS: Final = 10_000
"""Rows read of each period. At a rate of 95 % so many leave half a point of interval."""

MOST_BEFORE: Final = 200_000
"""Judged traces before the fall to choose from: what the store has to sort."""

LONGEST_BEFORE: Final = timedelta(days=14)
MIN_EFFECTIVE: Final = 20.0
_MOST_POINTS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Passages:
    """Share of the traffic without passages to judge by. Such traces have no verdict: no rate shows them."""

    before: float
    since: float
    change: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that is said about one alert. Rates are of the rows read; None where there are none."""

    event: AlertEvent
    before_from: datetime
    started: datetime
    until: datetime
    before: PassRate | None
    since: PassRate | None
    change: Estimate | None
    rows_before: int  # stored, of which at most MOST_ROWS were read
    rows_since: int
    enough: bool
    appeared: tuple[Appeared, ...]
    findings: tuple[Finding, ...]
    looked_at: int
    sliced_by: tuple[SlicedBy, ...]
    like_ids: tuple[str, ...]
    reading: Reading
    passages: Passages | None
    worst: tuple[WorstTrace, ...]
    record: TrackRecord
    resampled: Resampled | None = None  # only where it was asked for
    points: tuple[Point, ...]


def tells_of_a_fall(event: AlertEvent) -> bool:
    """Whether the event has evidence: it says that a pass rate fell, and since when. Latency, volume and the like have
    none, nor has the series of all values beyond a rule's limit: nothing tells its traces from others."""
    told = event.evidence
    quality = told.get("measure", "quality") == "quality" and told.get("type") != "volume"
    if is_other(event.series):
        return False
    return event.kind in ("firing", "escalated") and quality and isinstance(told.get("started_about"), str)


def gather(store: Store, event: AlertEvent, *, criteria: Mapping[str, str], actions: Sequence[Action] = ()) -> Evidence:
    """The evidence of an alert that fired or grew. `criteria` says what each judge of the settings measures.

    Raises ValueError for an event that names no start, and StoreError or ServiceUnavailable when the store does not
    answer.
    """
    if not tells_of_a_fall(event):
        raise ValueError(
            f"event {event.event_id} of kind {event.kind!r} tells of no fall of a pass rate; only alerts on quality do"
        )
    started = datetime.fromisoformat(str(event.evidence["started_about"]))
    events = store.alert_events.all(limit=10_000)
    query = JudgedQuery(
        start=started,
        end=event.at + timedelta(milliseconds=1),  # a trace may have been judged in the instant it was served
        judged_until=event.at,
        environment=event.series.environment,
        app=event.series.app,
        judge_id=JudgeId(event.series.judge_id),
        group=dict(event.series.group),
    )
    before_query = replace(query, start=_before_from(store, event, events, query), end=started)
    others = {name: what for name, what in criteria.items() if name != event.series.judge_name}
    since = store.judged.sample(query, limit=MOST_ROWS, others=sorted(others))
    before = store.judged.sample(before_query, limit=MOST_ROWS, others=sorted(others))
    old, new = pass_rate({"": bucket_of(before)}), pass_rate({"": bucket_of(since)})
    is_enough = enough(old, MIN_EFFECTIVE) and enough(new, MIN_EFFECTIVE)
    slices = cut(before, since, without=frozenset(query.group)) if is_enough else None
    findings, looked_at = standing_out(slices.attributes) if slices is not None else ([], 0)
    findings = without_copies(findings, since)
    return Evidence(
        event=event,
        before_from=max([before_query.start, *(row.event_time for row in before[:1])]),
        started=started,
        until=event.at,
        before=old,
        since=new,
        change=difference(new, old),
        rows_before=_stored(store, before_query, before),
        rows_since=_stored(store, query, since),
        enough=is_enough,
        appeared=_unnamed(appeared(before, since, started=started, until=event.at), findings),
        findings=tuple(mix_first(findings)),
        looked_at=looked_at,
        sliced_by=tuple(split(slices.attributes)) if slices is not None else (),
        like_ids=slices.like_ids if slices is not None else (),
        reading=read(
            before, since, criterion=criteria.get(event.series.judge_name, ""), criteria=others, mix=mix_of(findings)
        ),
        passages=_passages(store, before_query, query),
        worst=worst_traces(since, next((one for one in findings if one.kind != "mix"), None), judges=sorted(others)),
        record=_record(store, event, events, actions),
        points=_points(store, before_query, query),
    )


def in_reading_order(evidence: Evidence) -> list[SlicedBy]:
    """Attributes with findings first, in the order of these; then what appeared; then the others by name."""
    named = [finding.attribute for finding in evidence.findings] + [one.attribute for one in evidence.appeared]
    return sorted(
        evidence.sliced_by,
        key=lambda one: (named.index(one.name) if one.name in named else len(named), one.name),
    )


def _unnamed(new: Sequence[Appeared], findings: Sequence[Finding]) -> tuple[Appeared, ...]:
    """Without the canaries that stand out: the finding has their rates, and says more."""
    named = {(one.attribute, one.value) for one in findings}
    return tuple(one for one in new if one.beside is None or (one.attribute, one.value) not in named)


def healthy(store: Store, evidence: Evidence, actions: Sequence[Action], *, limit: int) -> list[Verdict]:
    """The last `limit` verdicts of the series before the fall, not before the comparison begins, without marked
    incidents."""
    series = evidence.event.series
    query = JudgedQuery(
        start=evidence.before_from,
        end=evidence.started,
        judged_until=evidence.until,
        environment=series.environment,
        app=series.app,
        judge_id=JudgeId(series.judge_id),
        group=dict(series.group),
    )
    marks = [one for one in actions if one.verb == "mark" and one.matches(series)]
    return [
        one
        for one in store.judged.verdicts(query, limit=limit)
        if not any(mark.start <= one.event_time < (mark.end or evidence.started) for mark in marks)
    ]


def _before_from(store: Store, event: AlertEvent, events: Sequence[AlertEvent], query: JudgedQuery) -> datetime:
    """The end of the last incident of the series, 14 days ago, or where there are traces enough, whatever is latest."""
    first = query.start - LONGEST_BEFORE
    for one in events:
        if one.series == event.series and one.kind == "resolved" and one.at <= query.start:
            recovered = one.evidence.get("recovered_about")
            first = max(first, datetime.fromisoformat(recovered) if isinstance(recovered, str) else one.at)
    asked = RateQuery(
        start=first, end=query.start, step_s=3600, environment=query.environment, app=query.app, judge=query.judge_id
    )
    held = 0
    for row in sorted(store.scores.buckets(asked), key=lambda row: row.start, reverse=True):
        held += row.bucket.n
        if held > MOST_BEFORE:
            return max(first, row.start)
    return first


def _stored(store: Store, query: JudgedQuery, rows: Sequence[JudgedRow]) -> int:
    return len(rows) if len(rows) < MOST_ROWS else store.judged.count(query)


def _passages(store: Store, before: JudgedQuery, since: JudgedQuery) -> Passages | None:
    """None where every trace had passages, or nothing is known."""
    old = pass_rate({"": store.judged.without_passages(before)})
    new = pass_rate({"": store.judged.without_passages(since)})
    change = difference(new, old)
    if change is None or old is None or new is None or old.estimate is None or new.estimate is None:
        return None
    if old.passed == new.passed == 0:
        return None
    return Passages(before=old.estimate, since=new.estimate, change=change)


def _record(store: Store, event: AlertEvent, events: Sequence[AlertEvent], actions: Sequence[Action]) -> TrackRecord:
    series = event.series
    days = store.scores.daily_spans(
        ScoreFilter(environment=series.environment, app=series.app, judge=series.judge_name, end=event.at)
    )
    promised = event.evidence.get("false_alarms")
    promise = parse_false_alarms(promised) if isinstance(promised, str) else None
    return track_record(
        event,
        events,
        actions,
        watched=watched_time([*days, (event.at, event.at)]),
        promise_days=None if promise is None else promise / timedelta(days=1),
    )


def _points(store: Store, before: JudgedQuery, since: JudgedQuery) -> tuple[Point, ...]:
    """The rate over time around the fall, in steps that can be drawn; each point in the middle of its step."""
    fallen = max(since.end - since.start, timedelta(hours=1))
    first = max(before.start, since.start - max(8 * fallen, timedelta(hours=12)))
    step_s = next(
        (step for step in (300, 900, 3600, 4 * 3600, 12 * 3600) if (since.end - first) / timedelta(seconds=step) <= 96),
        86_400,
    )
    start = datetime.fromtimestamp(int(first.timestamp()) // step_s * step_s, tz=first.tzinfo)
    end = datetime.fromtimestamp(-(-int(since.end.timestamp()) // step_s) * step_s, tz=first.tzinfo)
    asked = RateQuery(
        start=start,
        end=end,
        step_s=step_s,
        environment=since.environment,
        app=since.app,
        judge=since.judge_id,
        version=since.group.get("version"),
        category=since.group.get("category"),
        also={name: value for name, value in since.group.items() if is_of_trace(name)},
    )
    stratum = since.group.get("stratum")
    by_pane: dict[datetime, dict[str, Bucket]] = {}
    for row in store.scores.buckets(asked):
        if stratum in (None, row.stratum):
            by_pane.setdefault(row.start, {})[row.stratum] = row.bucket
    points = []
    for number in range(min(_MOST_POINTS, int((end - start) / timedelta(seconds=step_s)))):
        at = start + number * timedelta(seconds=step_s)
        rate = pass_rate(by_pane.get(at, {}))
        if rate is None or rate.estimate is None:
            points.append(Point(at=at + timedelta(seconds=step_s / 2), value=None))
        else:
            points.append(
                Point(at=at + timedelta(seconds=step_s / 2), value=rate.estimate, low=rate.low, high=rate.high)
            )
    # Before the first trace there was nothing to see: a fall that was judged late would else fill the plot with it.
    first_seen = next((number for number, point in enumerate(points) if point.value is not None), 0)
    return tuple(points[max(0, first_seen - 1) :])
