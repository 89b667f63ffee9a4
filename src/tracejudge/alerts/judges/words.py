"""A judge that moved, in one line for a person and in numbers; and the mark it leaves on quality alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

from tracejudge.alerts.actions import Action
from tracejudge.alerts.event import AlertEvent, EventKind
from tracejudge.alerts.judges.flips import TOLD_AT
from tracejudge.alerts.judges.standing import Against, Standing, WatchedJudge
from tracejudge.alerts.series.explain import event_id
from tracejudge.alerts.series.health import STANDS_BESIDE, JudgeHealth
from tracejudge.alerts.series.keys import judge_key
from tracejudge.alerts.series.state import Series
from tracejudge.alerts.series.wording import percent
from tracejudge.anchors.agreement import Agreement
from tracejudge.counted import counted
from tracejudge.scores import Score


def moved_words(standing: Standing) -> str:
    """From where to where, on how many anchors."""
    what = "repeats its first verdict" if standing.against == "reference" else "agrees with people"
    before = "" if standing.before is None else f", {percent(standing.before)} before"
    flipped = ""
    if standing.flips is not None:
        failed, passed = standing.flips
        flipped = (
            f"{failed} of {counted(standing.now.n, 'anchor')} changed from passed to failed, "
            f"{passed} from failed to passed; "
        )
    text = f"{flipped}on {counted(standing.now.n, 'anchor')} it {what} on {_with_interval(standing.now)}{before}"
    if standing.passes.value is not None and standing.passed.value is not None:
        text += f", and passes {percent(standing.passes.value)} of them instead of {percent(standing.passed.value)}"
    return text + (f"; model reported: {standing.model}" if standing.model else "")


def state_words(standing: Standing) -> str:
    """How it stands, after `JUDGE is`. A judge that changed before its agreement was learned has not moved since: that
    alone does not make it the judge of its first round."""
    if standing.moved:
        return "moved"
    then, now = standing.passed.value, standing.passes
    if then is None or now.low is None or now.high is None or now.low <= then <= now.high:
        return "steady"
    return "different from its first round, since before its agreement was learned"


def drift_event(watched: WatchedJudge, against: Against, *, open_alerts: Sequence[str]) -> AlertEvent:
    """The event of a series that has just fired, or of a judge that has just moved by its flips."""
    series = watched.series[against]
    standing, alert, early = watched.standing(against), series.alert, watched.flips.moved
    summary = f"judge {_plain(series.key.judge_name)} moved: "
    evidence: dict[str, object]
    if standing is not None and alert is not None:
        at, days = alert.at, alert.alarm_hours / 24.0
        summary += (
            f"{moved_words(standing)}; expected less than one such false alarm in {counted(days, 'day', form='g')}"
        )
        evidence = {"evidence_hours": alert.evidence_hours, "alarm_hours": alert.alarm_hours}
    elif standing is not None and early is not None:
        at = early.at
        summary += (
            f"{moved_words(standing)}; a steady judge is reported wrongly in fewer than 1 of {0.5 / TOLD_AT:g} cases"
        )
        evidence = {"look": watched.flips.looks}
    else:
        raise ValueError(f"{series.key!r} has no open alert; call this right after it fired")
    if open_alerts:
        summary += f"; {counted(len(open_alerts), 'open alert is', 'open alerts are')} by this judge"
    evidence = {
        **_numbers(standing),
        "state": "moved",
        **evidence,
        "false_alarms": series.promise,
        "cause": watched.last.cause,
        "open_alerts": list(open_alerts),
    }
    event = _event(series, kind="judge_drift", at=at, summary=summary, evidence=evidence)
    if alert is not None:
        alert.event_id = event.event_id
    elif early is not None:
        watched.flips.moved = replace(early, event_id=event.event_id)
    return event


def steady_event(
    watched: WatchedJudge,
    against: Against,
    *,
    at: datetime,
    action: Action | None = None,
    series: Series | None = None,
    because: str = "",
) -> AlertEvent:
    """The event of a judge that is as before again, or of whom a person says that it is well."""
    series = series or watched.series[against]
    standing = watched.standing(against)
    fired = series.alert.event_id if series.alert is not None else watched.open_event(against)
    if fired is None:
        raise ValueError(f"{series.key!r} has no open alert")
    evidence: dict[str, object] = {"fired_event_id": fired}
    name = _plain(series.key.judge_name)
    if action is not None:
        accepted = action.verb == "accept"
        what = "accepted as it judges now" if accepted else "not moved after all"
        summary = f"judge {name}: {what}" + (f", says {_plain(action.by)}" if action.by else "")
        evidence |= {"closed_because": "accepted" if accepted else "dismissed", "action_id": action.action_id}
    elif because:
        summary = f"judge {name}: closed because the settings changed"
        evidence["closed_because"] = because
    else:
        summary = f"judge {name} is steady again"
        if standing is not None:
            summary += f": {moved_words(standing)}"
    if standing is not None:
        evidence |= {**_numbers(standing), "state": "steady"}
    return _event(series, kind="judge_steady", at=at, summary=summary, evidence=evidence)


def as_of(standing: Standing | None) -> str:
    """The standing of a judge in words, for an alert that waited for the judge's round."""
    if standing is None:
        return "no result for its judge"
    return f"judge {state_words(standing)} as of {standing.at.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"


def mark(event: AlertEvent, standing: Standing, *, too_early: bool = False, asks: bool = False) -> AlertEvent:
    """A quality alert with what is known of its judge: whether the fall may be the judge's. `too_early`: its last round
    cannot tell; `asks`: so the alert asks for another one."""
    evidence = {**event.evidence, "judge": {**standing.numbers(), "too_early": too_early, "round_asked": asks}}
    summary = event.summary
    if standing.moved:
        summary += f"; its judge moved: {moved_words(standing)}"
    return replace(event, summary=summary, evidence=evidence)


def with_model_change(event: AlertEvent, health: JudgeHealth) -> AlertEvent:
    """A quality alert with the change of the judge's model in the week before it, where there was one."""
    change = health.change
    if change is None or event.at - change.at > STANDS_BESIDE:
        return event
    return replace(event, evidence={**event.evidence, "model_changed": change.numbers()})


def judge_changed(score: Score, before: str, begun: Sequence[Series]) -> AlertEvent:
    """A JudgeId judges in the place of another one: said once, with what each learned baseline begins with."""
    key = judge_key(score)
    baselines = {series.key.rule: {**(series.begun or {}), **_sees(series)} for series in begun}
    said = "; ".join(f"{_plain(series.key.rule)} {_begins(series)}" for series in begun)
    summary = f"{_plain(score.judge_name)} of {_plain(score.app)} is judged by {_plain(score.judge_id)} instead of "
    summary += f"{_plain(before)}" + (f": {said}" if said else "")
    return AlertEvent(
        event_id=event_id(key, kind="judge_changed", at=score.judged_at, ordinal=0),
        series=key,
        kind="judge_changed",
        severity="ticket",
        heuristic="heuristic" in score.flags,
        at=score.judged_at,
        summary=summary,
        evidence={"judge_id": score.judge_id, "judge_id_before": before, "baselines": baselines},
    )


def _begins(series: Series) -> str:
    begun = series.begun or {}
    drop = series.baseline.smallest_drop if series.baseline is not None else None
    sees = "" if drop is None else f", and detects falls of {100 * drop:.1f} points or more at once"
    if begun.get("from") == "bridge":
        return (
            f"continues from the old baseline, moved by {100 * begun['difference']:+.1f} points "
            f"({100 * begun['low']:+.1f} to {100 * begun['high']:+.1f}, {counted(begun['pairs'], 'answer')} judged by "
            f"both){sees}"
        )
    if begun.get("from") == "replay":
        return f"starts from the result of a replay{sees}"
    pairs = begun.get("pairs", 0)
    why = (
        "no answer was judged by both"
        if not pairs
        else f"only {counted(pairs, 'answer was', 'answers were')} judged by both"
    )
    return f"relearns its baseline, as {why}"


def _sees(series: Series) -> dict[str, object]:
    baseline = series.baseline
    if baseline is None or not baseline.known:
        return {"rate": None, "smallest_drop": None}
    return {"rate": baseline.m, "smallest_drop": baseline.smallest_drop}


def _numbers(standing: Standing) -> dict[str, object]:
    numbers = standing.numbers()
    del numbers["event_id"]
    return numbers


def _event(series: Series, *, kind: EventKind, at: datetime, summary: str, evidence: dict[str, object]) -> AlertEvent:
    ordinal = series.events
    series.events += 1
    return AlertEvent(
        event_id=event_id(series.key, kind=kind, at=at, ordinal=ordinal),
        series=series.key,
        kind=kind,
        severity="ticket",
        heuristic=series.heuristic,
        at=at,
        summary=summary,
        evidence={"rule": series.rule.name, **evidence},
    )


def _with_interval(one: Agreement) -> str:
    if one.value is None or one.low is None or one.high is None:
        return "none"
    return f"{percent(one.value)} ({round(100 * one.low)}-{round(100 * one.high)} %)"


def _plain(text: str) -> str:
    # Names come from settings and stores: control characters must not steer a terminal.
    return "".join(char if char.isprintable() else "?" for char in text)
