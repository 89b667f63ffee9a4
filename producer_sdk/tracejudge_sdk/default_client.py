"""The client of those who name none: the one the service set, else one made from the environment when first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tracejudge_sdk import forks
from tracejudge_sdk.errors import ConfigError
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
                    _default.client = TraceClient.from_env()
                except ConfigError as error:
                    warn("tracejudge: nothing is logged, there is no default client: %s", error)
                finally:
                    # Last: other threads look at it without waiting, and must find the client.
                    _default.looked = True
    return _default.client
