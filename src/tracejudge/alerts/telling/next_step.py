"""What an on-call person does about a judge that moved: stands below its event, wherever people read it."""

from __future__ import annotations

from tracejudge.alerts.event import AlertEvent


def next_steps(event: AlertEvent) -> tuple[str, ...]:
    """What it means, and what to type; none for an event of another kind. Names in it come from settings and stores."""
    if event.kind != "judge_drift":
        return ()
    name = dict(event.series.group).get("anchors", "").rpartition("@")[0]
    return (
        "meaning: the judge judges frozen traces differently than before, so its pass rates may move although the "
        "answers have not",
        f"next: `tracejudge anchors show{' ' + name if name else ''}` lists the verdicts that changed; if the change "
        f"is meant to stay, `tracejudge alerts accept event_id={event.event_id}`; if not, pin the judge's model to the "
        "version it had, or replace the judge",
    )
