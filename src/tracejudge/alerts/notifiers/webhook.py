"""Events as signed JSON over HTTP.

A request is `POST url` with the event as `event_to_json` gives it, and the headers

    X-Tracejudge-Event-Id     stable: the same event, sent again, has the same id
    X-Tracejudge-Timestamp    seconds since 1970 of this attempt
    X-Tracejudge-Signature    sha256=HEX, HMAC-SHA256 over TIMESTAMP "." BODY with the shared secret

A receiver checks the signature over the raw body, refuses old timestamps, and remembers ids. Any status of 2xx means
taken. Redirects are not followed: they could lead the event, and the next ones, elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
from collections.abc import Mapping

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.notifiers.address import AddressRefused, Resolve, resolve
from tracejudge.alerts.notifiers.exchange import exchange, parse_url
from tracejudge.alerts.notify import NotDelivered
from tracejudge.alerts.wire import event_to_json
from tracejudge.clock import Clock, SystemClock

USER_AGENT = "tracejudge-webhook/1"


class WebhookNotifier:
    """POSTs each event once; trying again is the caller's part.

    `secret` None sends unsigned. `timeout_s` bounds the whole exchange; the system's resolver, which cannot be cut off,
    takes its time out of it. Raises SettingsError when the URL cannot be used. Its messages name the host, never the
    path or query, which often are the secret themselves.
    """

    def __init__(
        self,
        *,
        url: str,
        secret: bytes | None,
        name: str = "webhook",
        allow_private: bool = False,
        timeout_s: float = 10.0,
        clock: Clock | None = None,
        resolver: Resolve = resolve,
    ) -> None:
        self._name = name
        self._url = parse_url(url)
        self._secret = secret
        self._allow_private = allow_private
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._resolver = resolver

    @property
    def name(self) -> str:
        return self._name

    def notify(self, event: AlertEvent) -> None:
        body = json.dumps(event_to_json(event), separators=(",", ":"), allow_nan=False).encode()
        timestamp = str(int(self._clock.now().timestamp()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "X-Tracejudge-Event-Id": event.event_id,
            "X-Tracejudge-Timestamp": timestamp,
        }
        if self._secret is not None:
            headers["X-Tracejudge-Signature"] = sign(body, secret=self._secret, timestamp=timestamp)
        host = self._url.hostname or ""
        try:
            status = self._post(body, headers)
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

    def _post(self, body: bytes, headers: Mapping[str, str]) -> int:
        return exchange(
            "POST",
            self._url,
            body=body,
            headers=headers,
            allow_private=self._allow_private,
            timeout_s=self._timeout_s,
            clock=self._clock,
            resolver=self._resolver,
        )


def sign(body: bytes, *, secret: bytes, timestamp: str) -> str:
    """The value of the signature header, for receivers and tests.

    >>> sign(b"{}", secret=b"s", timestamp="0")[:14]
    'sha256=e79b1f6'
    """
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
