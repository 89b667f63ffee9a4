"""An app, an environment or a judge that somebody named, where nothing was found: a typing error must not pass for a
quiet day. A name that was seen and merely has nothing in the time asked for is no error."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timezone
from typing import Final

import click
from click.core import ParameterSource

from tracejudge.errors import NotFound
from tracejudge.store import Store
from tracejudge_consumer.choosing.named_run import listed
from tracejudge_consumer.terminal.rendering import ident

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def require_slice(store: Store, *, environment: str | None, app: str | None) -> None:
    """Raises NotFound for an app, or an environment that was typed, from which no trace ever came. In a store without
    any trace no name is wrong yet."""
    seen = store.apps()
    if not seen:
        return
    environments = sorted({one.environment for one in seen})
    if environment is not None and environment not in environments and _typed("environment"):
        raise NotFound(f"there is no environment {environment!r}: traces came from {listed(environments)}")
    apps = sorted({one.app for one in seen})
    if app is not None and app not in apps:
        raise NotFound(f"there is no app {app!r}: traces came from {listed(apps)}")


def elsewhere(store: Store, *, environment: str | None, app: str | None) -> str | None:
    """Where the traces are, when all that there are are of other environments than the one that was looked at."""
    there = sorted({one.environment for one in store.apps() if app in (None, one.app)})
    if environment is None or not there or environment in there:
        return None
    of = "" if app is None else f" of {ident(app)}"
    return (
        f"there is no trace{of} from environment {ident(environment)}, but from {listed(there)}: name one with "
        "--environment"
    )


def require_judge_with_calls(store: Store, judge: str | None, *, configured: Collection[str]) -> None:
    """Raises NotFound for a judge, by name or JudgeId, that the settings do not name and that never made a call."""
    name = (judge or "").partition("@")[0]
    if not name or name in configured:
        return
    called = sorted({row.judge_name for row in store.calls.cost(_BEGINNING, None)})
    if name not in called:
        there = f"judges with calls: {listed(called)}" if called else "no judge has made a call yet"
        raise NotFound(f"there is no judge {name!r}: {there}")


def require_judge(store: Store, judge: str | None, *, run_id: str, configured: Collection[str]) -> None:
    """Raises NotFound for a judge, by name or JudgeId, that the settings do not name and the run has no score of."""
    name = (judge or "").partition("@")[0]
    if not name or name in configured:
        return
    judges = store.scores.judge_names(run_id)
    if name not in judges:
        there = f"has scores of {listed(judges)}" if judges else "has no scores yet"
        raise NotFound(
            f"there is no judge {name!r}: run {run_id!r} {there}; `tracejudge judges list --stored` shows those "
            "of every run"
        )


def _typed(name: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is None or context.get_parameter_source(name) is not ParameterSource.DEFAULT
