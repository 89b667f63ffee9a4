"""The store of the settings."""

from __future__ import annotations

import os
from typing import Final

from tracejudge.errors import SettingsError
from tracejudge.store import Store, open_store
from tracejudge.store.embedded import holds_store
from tracejudge.store.target import EmbeddedTarget, parse_store_url
from tracejudge_consumer.settings import Settings

# The pipeline repeats what failed for ever; a call that waits long would only hold up its end.
CONSUMER_STORE_PATIENCE_S: Final = 10.0

# Somebody who typed a command and sees nothing wants to know within seconds that the server is down.
FIRST_LOOK_PATIENCE_S: Final = 5.0

STORE_PASSWORD_ENV = "TRACEJUDGE_STORE_PASSWORD"  # noqa: S105 - the name of a variable, not a password


def connect_store(settings: Settings, *, create: bool = False, patience_s: float | None = None) -> Store:
    """The store of the settings, ready to use. Close it.

    `create` says that an embedded store may be made where there is none; without it SettingsError is raised, so that a
    look from the wrong folder does not leave an empty store behind and call it "no data".

    `patience_s` replaces `store_timeout_s` for those who try again by themselves. Without it (and without `create`: a
    consumer may start before its store) a server has some seconds to answer at first; only then it is waited for.

    An embedded store is migrated on the way: nobody else looks after it. A server must have been migrated
    (`tracejudge migrate`), since a fleet should not change a shared schema by merely starting.
    """
    if settings.store.startswith("chdb:") and not create:
        if missing := embedded_store_missing(settings):
            raise SettingsError([f"store: {missing}: `tracejudge consume` creates one there, or correct `store`"])
    elif not create and patience_s is None:
        with open_unchecked_store(settings, patience_s=min(FIRST_LOOK_PATIENCE_S, settings.store_timeout_s)) as first:
            first.check_schema()
    store = open_unchecked_store(settings, patience_s=patience_s)
    try:
        if settings.store.startswith("chdb:"):
            store.migrate(settings.retention.times)
        else:
            store.check_schema()
    except BaseException:  # Ctrl-C too: an owner that is not closed keeps the directory
        store.close()
        raise
    return store


def embedded_store_missing(settings: Settings) -> str | None:
    """In words, why there is no embedded store where the settings say; None where there is one, or a server's URL."""
    target = parse_store_url(settings.store)
    if not isinstance(target, EmbeddedTarget) or holds_store(target.directory):
        return None
    if not target.directory.exists():
        return f"{target.directory}: no store here yet"
    if not target.directory.is_dir():
        return None  # a file: opening it says so, also to those who would make a store
    something = " (the folder contains something else)" if any(target.directory.iterdir()) else ""
    return f"{target.directory}: no store here yet{something}"


def open_unchecked_store(settings: Settings, *, patience_s: float | None = None) -> Store:
    """The store of the settings, whatever state its schema is in. Close it."""
    return open_store(
        settings.store,
        password=os.environ.get(STORE_PASSWORD_ENV),
        settle_timeout_s=settings.store_timeout_s if patience_s is None else patience_s,
    )
