"""Can a round of anchors say whether it was the judge? One that began well within the fall can, an earlier one not."""

from __future__ import annotations

from datetime import datetime

from tracejudge.alerts.event import AlertEvent


def answered_from(event: AlertEvent) -> datetime | None:
    """A round of the judge answers the alert if it began then or later; None for what is no alert about verdicts.

    Half-way from when the first trace of the fall was judged (not served: it is the judge that is asked about) to the
    alarm: that first trace is an estimate, which errs by some of those that it took to tell.
    """
    told = event.evidence
    if event.kind != "firing" or told.get("measure", "quality") != "quality" or told.get("type") == "volume":
        return None
    since = told.get("judged_since")
    if not isinstance(since, str):
        return event.at  # of a window, or told by an older release: only what comes after it is sure
    return event.at - (event.at - datetime.fromisoformat(since)) / 2
