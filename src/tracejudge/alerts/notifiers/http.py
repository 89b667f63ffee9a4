"""Events POSTed as JSON: one request an event, to an address that is checked, within a time that is bounded."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.notifiers.address import AddressRefused, Resolve, resolve
from tracejudge.alerts.notifiers.exchange import exchange, parse_url
from tracejudge.alerts.notifiers.formats import Encode
from tracejudge.alerts.notify import NotDelivered
from tracejudge.clock import Clock, SystemClock

Headers = Callable[[AlertEvent, bytes], Mapping[str, str]]
"""What a channel adds to the headers of a request, given its body."""


def _no_headers(_event: AlertEvent, _body: bytes) -> Mapping[str, str]:
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
        if encoded is None:
            return
        body = json.dumps(encoded, separators=(",", ":"), allow_nan=False).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "tracejudge/1", **self._headers(event, body)}
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
        except (OSError, http.client.HTTPException) as error:
            raise NotDelivered(f"{self._name}: {host!r} did not answer: {type(error).__name__}: {error}") from error
        if 300 <= status < 400:
            raise NotDelivered(
                f"{self._name}: {host!r} answered {status}, a redirect, which is not followed; set url to its target"
            )
        if not 200 <= status < 300:
            raise NotDelivered(f"{self._name}: {host!r} answered {status}; look at the receiver's log")
