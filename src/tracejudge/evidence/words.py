"""What the evidence comes to, in sentences. Names of slices come from producers: only what prints stands in them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

from tracejudge.alerts import AlertEvent
from tracejudge.counted import counted
from tracejudge.evidence.appeared import Appeared
from tracejudge.evidence.gather import MIN_EFFECTIVE, MOST_ROWS, Evidence
from tracejudge.evidence.resampled import Resampled
from tracejudge.evidence.standing_out import Finding, mix_leads
from tracejudge.evidence.track_record import TrackRecord
from tracejudge.windows import PassRate


def slices_say(evidence: Evidence) -> str:
    """What appeared, then where it fell: the strongest finding, or that there is none, or that there is too little to
    tell. What cannot have begun it comes last: what was healthy before the fall, or any of it where the mix explains
    more than half."""
    led = mix_leads(evidence.findings)
    first = [appeared_says(one) for one in evidence.appeared if not led and one.well_until is None]
    last = [appeared_says(one) for one in evidence.appeared if led or one.well_until is not None]
    return "; ".join([*first, _where_says(evidence), *last])


def appeared_says(one: Appeared) -> str:
    """When something new came and what it holds; not that it is the cause."""
    held = f"all {one.traces:,}" if one.traces == one.of_traces else f"{one.traces:,} of {one.of_traces:,}"
    name = f"{plain(one.attribute)} {plain(one.value)}"
    since = "since" if one.since_at == one.at else f"since {_minute(one.since_at)}"
    beside = f", {rate_of(one.beside)} of the others" if one.beside is not None else ""
    well = f", passed {rate_of(one.well_until)} until the fall began" if one.well_until is not None else ""
    return (
        f"{name} appeared about {_minute(one.at)} UTC{well}, and {held} judged traces {since} have it: "
        f"{rate_of(one.since)} pass{beside}, {rate_of(one.before)} before"
    )


def _where_says(evidence: Evidence) -> str:
    if not evidence.enough:
        old = evidence.before.n_eff if evidence.before is not None else 0.0
        new = evidence.since.n_eff if evidence.since is not None else 0.0
        return (
            f"not enough data to compare slices: {old:.0f} effective judged traces before and {new:.0f} since, "
            f"{MIN_EFFECTIVE:g} of each are needed"
        )
    if not evidence.findings:
        if not evidence.sliced_by:
            return "nothing to slice by: these traces do not differ in version, category, model or any tag"
        if any(one.beside is not None for one in evidence.appeared):
            return f"none of {evidence.looked_at} slices examined, that one included, stands out beyond chance"
        if evidence.appeared:  # which is everywhere since, and has nothing beside it
            return (
                f"of the slices that existed before, none of {evidence.looked_at} examined stands out: they appear to "
                "have fallen uniformly"
            )
        return f"no slice stands out among {evidence.looked_at} examined: the fall appears uniform"
    first, *more = evidence.findings
    others = f"; also {', '.join(map(name_of, more[:3]))}" if more else ""
    overlap = len({one.attribute for one in evidence.findings}) > 1
    note = " (slices of several attributes hold the same traces, so their shares of the fall do not add up)"
    return finding_says(first) + others + (note if overlap else "")


def finding_says(finding: Finding) -> str:
    """One finding."""
    part = f"{_share(finding.share_of_change)} of the fall"
    name = name_of(finding)
    same = f", the same traces as {', '.join(map(plain, finding.same_traces_as[:3]))}" if finding.same_traces_as else ""
    if finding.kind == "mix":
        return (
            f"the mix of traffic moved: {name} went from {percent(finding.share_before)} to "
            f"{percent(finding.share_since)} of the traffic; shifts between values of {plain(finding.attribute)} "
            f"are {part} (a rule grouped by {plain(finding.attribute)} is silent about shifts)"
        )
    if finding.kind == "new":
        return f"{name} is new and at {rate_of(finding.since)}, {part}{same}"
    return f"{name} fell from {rate_of(finding.before)} to {rate_of(finding.since)}, {part}{same}"


def record_says(record: TrackRecord, *, app: str) -> str:
    """The promise about false alarms, and what was measured, in words."""
    promised = "this rule promises nothing about false alarms"
    if record.promised:
        period = counted(record.promise_days, "day", form="g")
        promised = f"promised: at most 1 false alarm in {period} for all quality rules of {plain(app)}"
    seen = (
        f"{counted(record.alerts, 'earlier alert')}, {record.dismissed} dismissed as false, {record.real} known to be "
        f"real, {record.unjudged} unreviewed"
    )
    if record.per_promise is None or record.low is None or record.high is None:
        return f"{promised}; not enough history to measure it: {record.days:.1f} days watched, {seen}"
    return (
        f"{promised}; measured {record.per_promise:.2g} ({record.low:.2g} to {record.high:.2g}) in "
        f"{record.promise_days:g} days, over {record.days:.0f} days watched: {seen}"
    )


def resampled_says(played: Resampled) -> str:
    """The result of playing the healthy history again, in words."""
    share = f" (its share: at most 1 in {played.promise_days:.3g} days)" if played.promised else ""
    return (
        f"simulated on its own healthy {played.history_days:.1f} days for {played.days:g} days, this series alone"
        f"{share}: {played.alarms} alarms, {played.per_promise:.2g} "
        f"({played.low:.2g} to {played.high:.2g}) in {played.promise_days:.3g} days"
    )


def judge_says(event: AlertEvent) -> str | None:
    """Whether the judge of an alert had moved, and as of when that is known; None where no round of anchors told."""
    known = event.evidence.get("judge")
    if not isinstance(known, Mapping) or not isinstance(known.get("at"), str):
        return None
    at = _minute(datetime.fromisoformat(known["at"]))
    about = f"{known.get('n')} anchors of {at} UTC"
    if known.get("state") != "steady":
        return f"it had moved according to its {about}: the fall may be the judge's"
    if known.get("too_early") is False:
        return f"steady by its {about}, judged after the fall began"
    age = ", too early to cover this fall" if known.get("too_early") else ""
    again = "`tracejudge anchors run` checks again"
    if known.get("round_asked"):
        again = "another round was requested, see `tracejudge anchors show`"
    return f"steady by its {about}{age}; a later move would not be visible here ({again})"


def looked_at_says(evidence: Evidence) -> str:
    """The rows that the evidence is made of, and what "before" and "since" mean wherever they are used in it."""
    read = f"{MOST_ROWS:,} of them read, chosen at random"
    old, new = (
        f"{counted(rows, 'judged trace')}" + (f" ({read})" if rows > MOST_ROWS else "")
        for rows in (evidence.rows_before, evidence.rows_since)
    )
    return (
        f"before: the {length_before(evidence)} before the fall, from {_minute(evidence.before_from)} UTC on, {old}; "
        f"since: from {_minute(evidence.started)} to {_minute(evidence.until)} UTC, {new}"
    )


def length_before(evidence: Evidence) -> str:
    """How long the period is that the fall is compared with: 14 days, 30 hours."""
    hours = max(1, round((evidence.started - evidence.before_from) / timedelta(hours=1)))
    return counted(round(hours / 24), "day") if hours >= 48 else counted(hours, "hour")


def baseline_of(event: AlertEvent) -> float | None:
    """The learned baseline of the alert's rule when it fired; None where it has none."""
    known = event.evidence.get("baseline")
    return float(known) if isinstance(known, float | int) and not isinstance(known, bool) else None


def name_of(finding: Finding) -> str:
    """The slice: attribute and value."""
    return f"{plain(finding.attribute)} {plain(finding.value) or '(none)'}"


def rate_of(rate: PassRate | None) -> str:
    """A rate with its interval."""
    if rate is None or rate.estimate is None:
        return "no data"
    if rate.low is None or rate.high is None:
        return percent(rate.estimate)
    return f"{percent(rate.estimate)} ({100 * rate.low:.1f} to {100 * rate.high:.1f})"


def percent(share: float) -> str:
    """A share for a person."""
    return f"{100 * share:.1f} %"


def plain(text: str, *, limit: int = 80) -> str:
    """A name from a trace, on one line and without what could steer a terminal."""
    kept = "".join(char if char.isprintable() else "?" for char in text)
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


def _minute(at: datetime) -> str:
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M}"


def _share(part: float) -> str:
    # More than all of it is possible: other slices rose meanwhile.
    return "all" if 0.97 <= part <= 1.03 else f"{round(100 * part)} %"
