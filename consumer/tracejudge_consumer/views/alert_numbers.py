"""The numbers of an alert event in words: each under its name, in the unit that is used everywhere. Keys as they are
stored stand in `--json` only; what is not named here is said by the event's summary, or is for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.series.wording import of_what_fires
from tracejudge.evidence.words import judge_says
from tracejudge_consumer.terminal.rendering import harmless, instant, interval, percent

_RATE: Final = frozenset({"rate", "low", "high", "judged", "n_eff"})


def numbers_say(event: AlertEvent) -> list[tuple[str, str]]:
    """Name and value of each number that is known, in reading order."""
    told = event.evidence
    found = [(name, _said(told.get(key), say)) for key, name, say in _NAMED]
    found[1:1] = [
        ("evidence", _evidence(told)),
        ("for a page", _share(told, "page_evidence_hours", "alarm_hours", "of the page level")),
    ]
    if event.kind == "resolved":  # its summary names the level
        found = [(name, said) for name, said in found if name != "fires below"]
    found.append(("judge", judge_says(event) or ""))
    return [(name, said) for name, said in found if said]


def _evidence(told: Mapping[str, object]) -> str:
    ends = _share(told, "evidence_hours", "resolve_hours", "of the level that resolves it")
    fires = _share(told, "evidence_hours", "alarm_hours", "of the alarm level")
    promise = told.get("false_alarms")
    promised = f" (promised false alarms: at most {harmless(promise)})" if fires and isinstance(promise, str) else ""
    return ends or fires + promised


def _share(told: Mapping[str, object], have: str, needed: str, what: str) -> str:
    hours, most = told.get(have), told.get(needed)
    if not isinstance(hours, float | int) or not isinstance(most, float | int) or not most:
        return ""
    return f"{of_what_fires(hours / most)} {what}"


def _said(value: object, say: Callable[[object], str]) -> str:
    return "" if value is None else say(value)


def _rate(value: object) -> str:
    if isinstance(value, Mapping) and value.keys() >= _RATE:
        bounds = interval(value["low"], value["high"])
        return f"{percent(value['rate'])} ({bounds}), {value['judged']} judged, n_eff {value['n_eff']:.0f}"
    return ""


def _rate_before(value: object) -> str:
    said = _rate(value)
    return f"{said}; since the previous incident, if any" if said else ""


def _at(value: object) -> str:
    return f"{instant(datetime.fromisoformat(value))} UTC" if isinstance(value, str) else ""


def _percent(value: object) -> str:
    return percent(float(value)) if isinstance(value, float | int) else ""


def _text(value: object) -> str:
    return harmless(str(value), limit=160)


def _list(value: object) -> str:
    return ", ".join(harmless(str(one)) for one in value) if isinstance(value, list | tuple) else ""


def _coverage(value: object) -> str:
    if not isinstance(value, Mapping) or not value.keys() >= {"low", "high", "invalid_share"}:
        return ""
    return (
        f"low: {percent(value['invalid_share'])} of recent traces could not be judged, so the rate lies between "
        f"{percent(value['low'])} and {percent(value['high'])}"
    )


def _model(value: object) -> str:
    if not isinstance(value, Mapping):
        return ""
    was, now = (value.get(side) for side in ("before", "now"))
    if not isinstance(was, Mapping) or not isinstance(now, Mapping):
        return ""
    old, new = ((_text(one.get("model", "")), _text(one.get("fingerprint", ""))) for one in (was, now))
    part = 0 if old[0] != new[0] else 1
    return f"{old[part] or '(none)'} until {_at(value.get('at'))}, {new[part] or '(none)'} since then"


_NAMED: Final[tuple[tuple[str, str, Callable[[object], str]], ...]] = (
    ("boundary", "fires below", _percent),
    ("started_about", "began about", _at),
    ("baseline", "learned baseline", _percent),
    ("before", "before the fall", _rate_before),
    ("since", "since the fall", _rate),
    ("coverage_low", "coverage", _coverage),
    ("fired_at", "fired at", _at),
    ("fired_event_id", "alert", _text),
    ("recovered_about", "recovered about", _at),
    ("above", "resolves above", _percent),
    ("since_recovery", "since then", _rate),
    ("closed_because", "closed because", lambda value: _text(value).replace("_", " ")),
    ("action_id", "by action", _text),
    ("window", "window", _text),
    ("last_judged_at", "last judged at", _at),
    ("moved_about", "moved about", _at),
    ("anchors", "anchors", _text),
    ("open_alerts", "open alerts", _list),
    ("model_changed", "judge's model", _model),
    ("severity_lowered", "severity", _text),
    ("held_until", "held back until", _at),
    ("last_error", "last error", _text),
)
