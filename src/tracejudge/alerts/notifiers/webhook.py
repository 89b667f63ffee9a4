"""Events as signed JSON over HTTP.

A request is `POST url` with the event as `event_to_json` gives it, and the headers

    X-Tracejudge-Event-Id     stable: the same event, sent again, has the same id
    X-Tracejudge-Timestamp    seconds since 1970 of this attempt
    X-Tracejudge-Signature    sha256=HEX, HMAC-SHA256 over TIMESTAMP "." BODY with the shared secret

Where its settings say `group = true`, several events come in one request, as `{"version": 1, "message_id": ...,
"events": [...]}` with each event in the form above; the id in the header is that of the message then.

A receiver checks the signature over the raw body, refuses old timestamps, and remembers ids. Any status of 2xx means
taken. Redirects are not followed: they could lead the event, and the next ones, elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from tracejudge.alerts.notifiers.address import Resolve, resolve
from tracejudge.alerts.notifiers.formats import webhook_message
from tracejudge.alerts.notifiers.http import HttpGroupNotifier
from tracejudge.alerts.wire import event_to_json
from tracejudge.clock import Clock, SystemClock

USER_AGENT = "tracejudge-webhook/1"


class WebhookNotifier(HttpGroupNotifier):
    """POSTs each event once. `secret` None sends unsigned. Everything else is as of `HttpNotifier`."""

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
        chosen = clock or SystemClock()

        def headers(ident: str, body: bytes) -> Mapping[str, str]:
            timestamp = str(int(chosen.now().timestamp()))
            told = {
                "User-Agent": USER_AGENT,
                "X-Tracejudge-Event-Id": ident,
                "X-Tracejudge-Timestamp": timestamp,
            }
            if secret is not None:
                told["X-Tracejudge-Signature"] = sign(body, secret=secret, timestamp=timestamp)
            return told

        super().__init__(
            url=url,
            name=name,
            encode=event_to_json,
            encode_all=webhook_message,
            headers=headers,
            allow_private=allow_private,
            timeout_s=timeout_s,
            clock=chosen,
            resolver=resolver,
        )


def sign(body: bytes, *, secret: bytes, timestamp: str) -> str:
    """The value of the signature header, for receivers and tests.

    >>> sign(b"{}", secret=b"s", timestamp="0")[:14]
    'sha256=e79b1f6'
    """
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
