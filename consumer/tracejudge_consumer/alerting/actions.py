"""What people did about alerts, between the store's table and the alert engine."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import get_args

from tracejudge.alerts.actions import Action, Verb
from tracejudge.errors import SettingsError
from tracejudge.store import Store, UserAction


def read_actions(
    store: Store, *, after: tuple[datetime, str] | None = None, until: datetime | None = None
) -> list[Action]:
    """The actions stored so far, in order; those after (instant, id), and up to `until`."""
    found = [_action(stored) for stored in store.user_actions.all(since=after[0] if after else None)]
    return [
        action
        for action in found
        if (after is None or (action.at, action.action_id) > after) and (until is None or action.at <= until)
    ]


def record_action(
    store: Store,
    verb: Verb,
    *,
    matchers: Mapping[str, str],
    start: datetime | None = None,
    end: datetime | None = None,
    by: str = "",
    note: str = "",
) -> Action:
    """Stores an action of now, by the store's clock. Raises SettingsError where the store does not take it."""
    now = store.now()
    action = Action(
        action_id=uuid.uuid4().hex[:12],
        verb=verb,
        matchers=dict(matchers),
        start=start or now,
        end=end,
        by=by,
        note=note,
        at=now,
    )
    inserted = store.user_actions.insert(
        [
            UserAction(
                action_id=action.action_id,
                kind=verb,
                target=action.matchers,
                start=action.start,
                end=end,
                by=by,
                note=note,
                at=now,
            )
        ]
    )
    if inserted.rejected:  # an action that is told as done and is not there would be missed in the night
        raise SettingsError([f"{verb}: {one.detail}" for one in inserted.rejected])
    return action


def _action(stored: UserAction) -> Action:
    kinds: tuple[Verb, ...] = get_args(Verb)
    return Action(
        action_id=stored.action_id,
        verb=next((kind for kind in kinds if kind == stored.kind), "mark"),  # one that we do not know changes nothing
        matchers={str(field): str(value) for field, value in stored.target.items()},
        start=stored.start,
        end=stored.end,
        by=stored.by,
        note=stored.note,
        at=stored.at,
    )
