"""The evidence of an event in a few lines, for channels that send text: sentences, ids and a link, no trace's texts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timezone

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.telling.next_step import next_steps


def evidence_lines(event: AlertEvent) -> tuple[str, ...]:
    """Where it fell, retrieval or generation, the traces to look at, and how often this was wrong before; of a judge
    that moved what to do about it; none for an event without evidence. Names in them come from producers: escape them
    for where they go."""
    evidence = event.evidence
    lines = [said for part in ("slices", "retrieval_or_generation") if (said := _says(evidence.get(part)))]
    known = bool(lines)
    if known and (compared := _says(evidence.get("compared"))):
        lines.append(compared)
    worst = evidence.get("worst_trace_ids")
    if isinstance(worst, list | tuple) and worst:
        lines.append("worst traces: " + ", ".join(str(one) for one in worst[:5]))
    if known:
        at = event.at.astimezone(timezone.utc)
        lines.append(f"as of {at:%Y-%m-%d %H:%M} UTC; `tracejudge alerts explain` shows the current state")
    measured = ("false_alarms_measured", "false_alarms_resampled")
    if isinstance(gathered := evidence.get("gathered"), str):
        lines.append(gathered)
    lines += [said for part in measured if (said := _says(evidence.get(part)))]
    return (*lines, *next_steps(event))


def where_it_fell(event: AlertEvent) -> str:
    """One line about the slices that stand out or appeared, or a shift of the traffic mix; empty where there are
    none."""
    slices = event.evidence.get("slices")
    if not isinstance(slices, Mapping) or not (slices.get("standing_out") or slices.get("appeared")):
        return ""
    return _says(slices)


def evidence_link(event: AlertEvent) -> str | None:
    """Where the page about the event is; None when none was written."""
    page = event.evidence.get("page")
    return page if isinstance(page, str) and page else None


def _says(part: object) -> str:
    said = part.get("says") if isinstance(part, Mapping) else None
    return said if isinstance(said, str) else ""
