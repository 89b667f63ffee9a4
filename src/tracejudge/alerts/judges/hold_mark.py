"""The mark of an event that is held back: for programs why and until when at most, for people a sentence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Final, Literal

from tracejudge.alerts.event import AlertEvent

HeldBecause = Literal["judge_moved", "round_asked", "alert_held", "over"]
"""`alert_held`: the event is about an alert that is held back itself; `over`: it ended before it was sent."""

_SAYS: Final[Mapping[HeldBecause, str]] = {
    "judge_moved": "held back: its judge has moved; sent when the judge is steady again",
    "round_asked": "held back until an anchor round shows whether its judge has moved; sent if the judge is steady",
    "alert_held": "not sent on its own: its alert was held back",
    "over": "not sent: it resolved while it was held back",
}


def with_hold(
    event: AlertEvent, *, because: HeldBecause, until: datetime | None = None, again: bool = False
) -> AlertEvent:
    """The event with its mark. `until`: by then it is sent at the latest; `again`: it was held back before, for
    something else."""
    says = _SAYS[because]
    if until is not None:
        says += f", and by {until.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC at the latest"
    mark: dict[str, object] = {"says": says, "because": because, "until": None if until is None else until.isoformat()}
    if again:
        mark["again"] = True
    return replace(event, evidence={**event.evidence, "held": True, "held_back": mark})


def without_hold(event: AlertEvent, *, until: datetime) -> AlertEvent:
    """The event as it is released: without its mark, and with `until`, the instant up to which it was held."""
    kept = {name: value for name, value in event.evidence.items() if name not in ("held", "held_back")}
    return replace(event, evidence={**kept, "held_until": until.isoformat()})


def hold_numbers(event: AlertEvent) -> dict[str, object]:
    """The fields of a held event for programs: its id, and why and until when it is held."""
    return {"event_id": event.event_id, "says": hold_says(event), **_mark(event)}


def is_held(event: AlertEvent) -> bool:
    """Whether the event is held back from all channels."""
    return bool(event.evidence.get("held"))


def hold_says(event: AlertEvent) -> str | None:
    """That it is held back, why, and until when at most; None for one that is not."""
    says = _mark(event).get("says")
    if isinstance(says, str):
        return says
    return "held back, not sent" if is_held(event) else None  # stored by an older release


def held_because(event: AlertEvent) -> HeldBecause:
    """Why an alert is held back; older releases did so for one reason, and did not name it."""
    return "round_asked" if _mark(event).get("because") == "round_asked" else "judge_moved"


def known_before(event: AlertEvent) -> bool:
    """Whether the same event came before under its id: let go now, or held back for something else by now."""
    return "held_until" in event.evidence or bool(_mark(event).get("again"))


def _mark(event: AlertEvent) -> Mapping[str, object]:
    mark = event.evidence.get("held_back")
    return mark if isinstance(mark, Mapping) else {}


def as_held_now(event: AlertEvent, held: Collection[str]) -> AlertEvent:
    """A stored event as it is by now, where `held` are the ids of the alerts that are held back still: what is stored
    of one that ended meanwhile is not written again."""
    lasts = event.kind in ("firing", "escalated")
    return with_hold(event, because="over") if lasts and is_held(event) and event.alert_id not in held else event
