"""Reads and records people's actions on alerts, in the store's table of user actions."""

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
    """The stored actions in order of (instant, id): those after `after`, up to `until`."""
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
    """Stores an action with the store's present time. Raises SettingsError when the store refuses it."""
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
    if inserted.rejected:  # a silence reported as set but not stored would be missed only when the page comes
        raise SettingsError([f"{verb}: {one.detail}" for one in inserted.rejected])
    return action


def _action(stored: UserAction) -> Action:
    kinds: tuple[Verb, ...] = get_args(Verb)
    return Action(
        action_id=stored.action_id,
        verb=next(
            (kind for kind in kinds if kind == stored.kind), "mark"
        ),  # unknown kinds are read as one without effect
        matchers={str(field): str(value) for field, value in stored.target.items()},
        start=stored.start,
        end=stored.end,
        by=stored.by,
        note=stored.note,
        at=stored.at,
    )
