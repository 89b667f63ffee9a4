"""The evidence of one alert as a page: whole in one file, no script, nothing loaded, light or dark, and on paper.

Ids, numbers and names; texts of traces only when they are given. What a trace says is escaped where it is put in, and
the page forbids itself everything but its own styles (pages/page.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Final

from tracejudge.alerts.judges.hold_mark import hold_says
from tracejudge.alerts.series.wording import of_what_fires, percent
from tracejudge.comparing.paired import Estimate
from tracejudge.counted import counted
from tracejudge.evidence.gather import MOST_ROWS, Evidence, in_reading_order
from tracejudge.evidence.measures import Measure
from tracejudge.evidence.standing_out import SlicedBy
from tracejudge.evidence.words import (
    finding_says,
    judge_says,
    length_before,
    looked_at_says,
    rate_of,
    record_says,
    resampled_says,
    slices_say,
)
from tracejudge.pages.changes import PartOfChange, ShareBeside, parts_of_change, shares_beside
from tracejudge.pages.page import Section, Tile, heading, page, paragraph, quoted, table
from tracejudge.pages.svg import share_over_time
from tracejudge.scores import Score
from tracejudge.store import StoredTrace
from tracejudge.windows import PassRate

_MOST_ATTRIBUTES: Final = 8
_MOST_SLICES: Final = 12
_PASSAGES: Final = 3  # quoted of a trace

Quotes = Mapping[str, tuple[StoredTrace | None, Score | None]]
"""By trace id: what may be quoted."""


def evidence_page(evidence: Evidence, *, release: str, made_at: datetime, quotes: Quotes | None = None) -> str:
    """The whole file. `quotes` holds the worst traces where their texts may be shown."""
    event, series = evidence.event, evidence.event.series
    heuristic = " (heuristic)" if event.heuristic else ""
    where = f"{series.app}, {series.environment}"
    if series.group:
        where += ", " + ", ".join(f"{name} {value or '(none)'}" for name, value in series.group)
    return page(
        event.summary.partition(";")[0],
        f"Alert of {_minute(event.at)} UTC ({event.severity}), rule {series.rule}: {series.judge_id}{heuristic} of "
        f"{where}. Event {event.event_id}",
        tiles=_tiles(evidence),
        sections=[section for section in _sections(evidence, quotes) if section.parts],
        footer=(
            f"tracejudge {release}, created {_minute(made_at)} UTC. Rates are weighted by how each trace was sampled; "
            "intervals are 95 % unless said otherwise. Equal content within an hour is one observation. Only verdicts "
            "given up to the alert are counted here."
        ),
    )


def _tiles(evidence: Evidence) -> list[Tile]:
    change = evidence.change
    fallen = "no data" if change is None else f"{100 * change.value:+.1f} points"
    spread = "" if change is None else f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"
    return [
        Tile(name="began about", value=f"{evidence.started:%H:%M} UTC", note=f"{evidence.started:%Y-%m-%d}"),
        _rate_tile(f"pass rate, {length_before(evidence)} before", evidence.before),
        _rate_tile("pass rate since", evidence.since),
        Tile(name="change", value=fallen, note=spread),
        Tile(name="retrieval or generation", value=evidence.reading.verdict.replace("_", " ")),
    ]


def _rate_tile(name: str, rate: PassRate | None) -> Tile:
    if rate is None or rate.estimate is None:
        return Tile(name=name, value="no data")
    spread = "" if rate.low is None or rate.high is None else f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %, "
    return Tile(name=name, value=percent(rate.estimate), note=f"{spread}{rate.judged:,} judged")


def _sections(evidence: Evidence, quotes: Quotes | None) -> list[Section]:
    marks = [(evidence.started, "began about"), (evidence.until, "alert")]
    plot = share_over_time(evidence.points, label="Pass rate over time, UTC", marks=marks)
    held = hold_says(evidence.event)
    told = [] if held is None else [paragraph(f"As of when this page was created: {held}.")]
    return [
        Section(heading="What happened", parts=(paragraph(evidence.event.summary + "."), *told, plot)),
        _where(evidence),
        *[_by(one) for one in in_reading_order(evidence)[:_MOST_ATTRIBUTES]],
        _reading(evidence),
        _worst(evidence, quotes),
        _trust(evidence),
    ]


def _where(evidence: Evidence) -> Section:
    said = [paragraph(slices_say(evidence) + ".")]
    findings = [paragraph(finding_says(one) + ".") for one in evidence.findings[1:6]]
    if evidence.sliced_by:
        columns = [("split by", False), ("within slices", True), ("mix of traffic", True), ("new or gone", True)]
        rows = [
            [one.name, _points(one.parts.within), _points(one.parts.mix), f"{100 * one.parts.new_or_gone:+.1f}"]
            for one in in_reading_order(evidence)
        ]
        said += [*findings, table([*columns, ("values", True)], [
            [*row, str(len(one.parts.slices))] for row, one in zip(rows, in_reading_order(evidence), strict=True)
        ])]  # fmt: skip
        said.append(
            paragraph(
                "Points of the pass rate, with 95 % intervals; each row adds up to the change (Kitagawa 1955). A slice "
                f"is named above when its own change, and by how much it exceeds that of the rest, are both below zero "
                f"at 1 - 0.05 / {max(1, evidence.looked_at)} (Bonferroni, for as many slices looked at)."
            )
        )
    if evidence.like_ids:
        names = ", ".join(evidence.like_ids[:10])
        said.append(paragraph(f"Not split by {names}: too many different values."))
    return Section(heading="Where", parts=tuple(said))


def _by(one: SlicedBy) -> Section:
    slices = sorted(one.parts.slices[:_MOST_SLICES], key=lambda part: (part.contribution, part.value))  # worst first
    beside = [
        ShareBeside(name=part.value or "(none)", before=_bar(part.before), since=_bar(part.since)) for part in slices
    ]
    parts = []
    for part in slices:
        name = part.value or "(none)"
        if part.before is not None and part.since is not None:
            parts += [
                PartOfChange(name=f"{name}: within", value=part.within),
                PartOfChange(name=f"{name}: mix", value=part.mix),
            ]
        else:
            kind = "new" if part.before is None else "gone"
            parts.append(PartOfChange(name=f"{name}: {kind}", value=part.new_or_gone))
    parts = [part for part in parts if abs(part.value) >= 0.0005][: 2 * _MOST_SLICES]
    more = len(one.parts.slices) - len(slices)
    said = (paragraph(f"... and {counted(more, 'more value')}, with fewer traces."),) if more > 0 else ()
    return Section(
        heading=f"By {one.name}",
        parts=(
            shares_beside(beside, label=f"Pass rate by {one.name}, before (grey) and since"),
            parts_of_change(parts, label=f"Parts of the change by {one.name}") if parts else "",
            *said,
        ),
    )


def _bar(rate: PassRate | None) -> tuple[float, float, float] | None:
    if rate is None or rate.estimate is None or rate.low is None or rate.high is None:
        return None
    return (rate.estimate, rate.low, rate.high)


def _reading(evidence: Evidence) -> Section:
    reading = evidence.reading
    said = [paragraph(reading.says + ".")]
    rows = [[one.name, _value(one, one.before), _value(one, one.since), _moved(one)] for one in reading.measures]
    if evidence.passages is not None:
        passages = evidence.passages
        rows.insert(
            0,
            ["traffic without passages to judge by", percent(passages.before), percent(passages.since),
             _points(passages.change)],
        )  # fmt: skip
    if rows:
        said.append(table([("of the same traces", False), ("before", True), ("since", True), ("change", True)], rows))
    return Section(heading="Retrieval or generation", parts=tuple(said))


def _worst(evidence: Evidence, quotes: Quotes | None) -> Section:
    if not evidence.worst:
        return Section(heading="", parts=())
    parts = []
    for one in evidence.worst:
        stored, score = (quotes or {}).get(one.trace_id, (None, None))
        said = [heading(one.trace_id), paragraph(f"{_minute(one.at)} UTC: {one.why}.")]
        if stored is not None and not stored.texts_expired:
            said += [quoted("Question", stored.trace.query), quoted("Answer", stored.trace.response or "")]
            texts = [node.text for node in stored.trace.source_nodes if node.text][:_PASSAGES]
            said += [quoted(f"Passage {number}", text, limit=500) for number, text in enumerate(texts, start=1)]
        if score is not None and score.feedback:
            said.append(quoted("The judge", score.feedback, limit=600))
        parts.append(f"<article>{''.join(said)}</article>")
    if quotes is None:
        parts.append(paragraph("The settings exclude texts from this page; `tracejudge show TRACE` shows them."))
    return Section(heading="Read these first", parts=tuple(parts))


def _trust(evidence: Evidence) -> Section:
    told = evidence.event.evidence
    rows = [
        ["fires below", _percent(told.get("boundary"))],
        ["learned baseline", _percent(told.get("baseline"))],
        ["evidence, % of the alarm level", _evidence(told.get("evidence_hours"), told.get("alarm_hours"))],
        [f"rate of the {length_before(evidence)} before, by event time", rate_of(evidence.before)],
        ["rate since", rate_of(evidence.since)],
    ]
    judge = judge_says(evidence.event)
    parts = [
        *([] if judge is None else [paragraph(f"Its judge: {judge}.")]),
        paragraph(record_says(evidence.record, app=evidence.event.series.app) + "."),
        *([] if evidence.resampled is None else [paragraph(resampled_says(evidence.resampled) + ".")]),
        paragraph(looked_at_says(evidence) + f". At most {MOST_ROWS:,} of each period are read."),
        table([("", False), ("", True)], [row for row in rows if row[1]]),
    ]
    return Section(heading="How far to trust it", parts=tuple(parts))


def _percent(value: object) -> str:
    return percent(float(value)) if isinstance(value, float | int) and not isinstance(value, bool) else ""


def _evidence(hours: object, needed: object) -> str:
    known = isinstance(hours, float | int) and isinstance(needed, float | int) and needed
    return of_what_fires(float(hours) / float(needed)) if known else ""  # type: ignore[arg-type]


def _value(one: Measure, value: float) -> str:
    return percent(value) if one.unit == "share" else f"{value:.4g}"


def _moved(one: Measure) -> str:
    change = one.change
    if one.unit == "share":
        return _points(change)
    return f"{change.value:+.3g} ({change.low:+.3g} to {change.high:+.3g})"


def _points(change: Estimate) -> str:
    return f"{100 * change.value:+.1f} ({100 * change.low:+.1f} to {100 * change.high:+.1f})"


def _minute(at: datetime) -> str:
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M}"
