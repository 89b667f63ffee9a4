"""The client of those who name none: the one the service set, else one made from the environment when first needed."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from tracejudge_sdk import forks
from tracejudge_sdk.config import settings_from_env
from tracejudge_sdk.notices import warn

if TYPE_CHECKING:
    from tracejudge_sdk.client import TraceClient


class _Default:
    client: TraceClient | None = None
    looked: bool = False


_default: Final = _Default()


def set_default_client(client: TraceClient | None) -> None:
    """Makes it the client of every `@observe` without one; None goes back to the environment."""
    with forks.GATE:
        _default.client = client
        _default.looked = client is not None


def default_client() -> TraceClient | None:
    """The default client; None, with one warning, where the environment names no queue or app. Never raises."""
    if not _default.looked:
        from tracejudge_sdk.client import TraceClient

        with forks.GATE:
            if not _default.looked:
                try:
                    _default.client = TraceClient.from_env(handle_sigterm=_takes_sigterm())
                except Exception as error:  # noqa: BLE001 - mostly a ConfigError; a request may be the first to need it
                    warn("tracejudge: nothing is logged, there is no default client: %s", error)
                finally:
                    # Last: other threads look at it without waiting, and must find the client.
                    _default.looked = True
    return _default.client


def _takes_sigterm() -> bool:
    """Whether the environment asks for it and this thread can: servers run requests, of which one may be the first to
    need the client, in other threads. Raises ConfigError."""
    if not settings_from_env(os.environ, {}).handle_sigterm:
        return False
    if threading.current_thread() is threading.main_thread():
        return True
    warn(
        "tracejudge: TRACEJUDGE_HANDLE_SIGTERM has no effect: only the main thread can take signals, and the default "
        "client was first needed in another one: call tracejudge_sdk.default_client() when the service starts"
    )
    return False
