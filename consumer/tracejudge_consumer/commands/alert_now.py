"""The evidence of series that fire or come near to it, as of now: what `alerts explain` says below its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from tracejudge.alerts import AlertEvent, SeriesStatus
from tracejudge.alerts.rules.slices import is_other
from tracejudge.evidence import Evidence
from tracejudge.evidence.words import length_before, rate_of, slices_say
from tracejudge.store import Store
from tracejudge_consumer.settings import Settings
from tracejudge_consumer.terminal.rendering import ident, instant, percent, slice_in_words
from tracejudge_consumer.wiring import build_evidence

MOST_SERIES: Final = 10
"""Each costs some tenths of a second; those nearest to firing, or beyond it, come first."""


def evidence_now(
    settings: Settings, store: Store, series: Sequence[SeriesStatus]
) -> list[tuple[SeriesStatus, Evidence]]:
    """The evidence since the fall that is suspected or told of, of at most `MOST_SERIES`, the nearest to firing first.

    It is of all that is judged by now, where an alert tells what was known when it fired.
    """
    explainer, now = build_evidence(settings, store), store.now()
    rules = {rule.name for rule in settings.rules}
    near = sorted(
        (
            one
            for one in series
            if one.key.rule in rules
            and one.about_verdicts
            and one.state in ("firing", "pending")
            and one.started_about is not None
            and not is_other(one.key)  # nothing tells its traces from others
        ),
        key=lambda one: (one.state != "firing", -one.evidence),
    )
    found = []
    for one in near[:MOST_SERIES]:
        evidence: dict[str, Any] = {
            "started_about": one.started_about.isoformat() if one.started_about else None,
            "false_alarms": one.false_alarms,
        }
        if one.alert_event_id is not None:
            evidence["fired_event_id"] = one.alert_event_id
        event = AlertEvent(
            event_id="", series=one.key, kind="firing", severity="ticket", heuristic=one.heuristic, at=now,
            summary="", evidence=evidence,
        )  # fmt: skip
        found.append((one, explainer.evidence(event)))
    return found


def show_now(out: Console, found: Sequence[tuple[SeriesStatus, Evidence]]) -> None:
    """Prints a few lines for each."""
    for status, evidence in found:
        near = f"is at {100 * status.evidence:.0f} % of the alarm level"
        what = "fires" if status.state == "firing" else near
        key = status.key
        where = f" [{slice_in_words(key.group)}]" if key.group else ""
        named = f"{key.rule}: {key.judge_name} of {key.app}{where}"
        out.print(Text(f"{ident(named)} {what}", style="bold"))
        learned = "" if status.baseline is None else f"learned baseline {percent(status.baseline)} now; "
        out.print(
            f"  {learned}{rate_of(evidence.before)} in the {length_before(evidence)} before, "
            f"{rate_of(evidence.since)} since {instant(evidence.started)} UTC, until now"
        )
        out.print(f"  {ident(slices_say(evidence))}")
        out.print(f"  {ident(evidence.reading.says)}")
        if evidence.worst:
            out.print(f"  worst traces: {ident(', '.join(one.trace_id for one in evidence.worst))}")
