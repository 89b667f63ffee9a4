"""Events POSTed as JSON: one request a message, to an address that is checked, within a time that is bounded."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.notifiers.address import AddressRefused, Resolve, resolve
from tracejudge.alerts.notifiers.exchange import exchange, parse_url
from tracejudge.alerts.notifiers.formats import Body, Encode, EncodeAll
from tracejudge.alerts.telling.notify import Message, NotDelivered
from tracejudge.clock import Clock, SystemClock

_REFUSED: Final = frozenset({400, 413, 422})
"""Statuses by which a receiver that is there will not have a body: another one may do better."""

_REMEDY: Final[Mapping[int, str]] = {
    400: "it cannot use what it was sent: check the channel's type and secret",
    401: "check the channel's secret",
    403: "check the channel's secret, and whether it may still post there",
    404: "check the channel's address",
    410: "what was there is gone: make a new address and set it",
    413: "it takes only smaller messages",
    429: "it takes fewer messages in this time: lower max_messages",
}
"""Of services whose logs nobody here can read."""

Headers = Callable[[str, bytes], Mapping[str, str]]
"""What a channel adds to the headers of a request, given the id of its event or message, and its body."""


def _no_headers(_ident: str, _body: bytes) -> Mapping[str, str]:
    return {}


class HttpNotifier:
    """Sends what `encode` makes of an event; trying again is the caller's part.

    `timeout_s` bounds the whole exchange; the system's resolver, which cannot be cut off, takes its time out of it.
    Raises SettingsError when the URL cannot be used. Its messages name the host, never the path or query, which often
    are the secret themselves.
    """

    def __init__(
        self,
        *,
        url: str,
        name: str,
        encode: Encode,
        headers: Headers = _no_headers,
        allow_private: bool = False,
        timeout_s: float = 10.0,
        clock: Clock | None = None,
        resolver: Resolve = resolve,
    ) -> None:
        self._name = name
        self._url = parse_url(url)
        self._encode = encode
        self._headers = headers
        self._allow_private = allow_private
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._resolver = resolver

    @property
    def name(self) -> str:
        return self._name

    def notify(self, event: AlertEvent) -> None:
        encoded = self._encode(event)
        if encoded is not None:
            self._post(encoded, event.event_id)

    def _post(self, encoded: Body, ident: str) -> None:
        body = json.dumps(encoded, separators=(",", ":"), allow_nan=False).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "tracejudge/1", **self._headers(ident, body)}
        host = self._url.hostname or ""
        try:
            status = exchange(
                "POST",
                self._url,
                body=body,
                headers=headers,
                allow_private=self._allow_private,
                timeout_s=self._timeout_s,
                clock=self._clock,
                resolver=self._resolver,
            )
        except AddressRefused as error:
            raise NotDelivered(f"{self._name}: {error}") from error
        except OSError as error:
            raise NotDelivered(f"{self._name}: {host!r} did not answer: {type(error).__name__}: {error}") from error
        except (http.client.HTTPException, ValueError) as error:
            # Their words quote what was sent, or what came: a secret, or somebody else's text.
            raise NotDelivered(f"{self._name}: {host!r} did not answer in HTTP: {type(error).__name__}") from None
        if 300 <= status < 400:
            raise NotDelivered(
                f"{self._name}: {host!r} answered {status}, a redirect, which is not followed; set url to its target"
            )
        if not 200 <= status < 300:
            remedy = _REMEDY.get(status, "look at the receiver's log")
            said = f"{self._name}: {host!r} answered {status}; {remedy}"
            raise NotDelivered(said, refused=status in _REFUSED)


class HttpGroupNotifier(HttpNotifier):
    """An HttpNotifier for a receiver that takes several events at once, encoded by `encode_all`."""

    def __init__(self, *, encode_all: EncodeAll, **options: Any) -> None:
        super().__init__(**options)
        self._encode_all = encode_all

    def notify_all(self, message: Message) -> None:
        self._post(self._encode_all(message), message.message_id)
