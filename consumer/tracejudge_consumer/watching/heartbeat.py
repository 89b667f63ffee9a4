"""A dead man's switch: a URL that hears from this process while its work gets on, and from nobody when it does not.

An alert that says "all is well" cannot be lost silently: the service behind the URL raises the alarm when it stays out.
So the only mistake to avoid is to send one that is not earned; whoever is asked (`withheld`) says so with a reason.
"""

from __future__ import annotations

import http.client
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter

from tracejudge.alerts.notifiers.address import AddressRefused, Resolve, resolve
from tracejudge.alerts.notifiers.exchange import exchange, parse_url
from tracejudge.clock import Clock, SystemClock
from tracejudge_consumer.watching.metrics import counter

_LOG = logging.getLogger(__name__)

Sender = Literal["consumer", "alert_loop"]
_USER_AGENT: Final = "tracejudge-heartbeat/1"


def heartbeat_counter(registry: CollectorRegistry) -> Counter:
    """What the heartbeats of one process are counted in, by sender and result."""
    return counter(registry, "tracejudge_heartbeats_total", "Heartbeats.", "sender", "result")


class Heartbeat:
    """Sends to one URL. Its messages name the host, never path or query, which often are the secret themselves."""

    def __init__(
        self,
        sender: Sender,
        url: str,
        *,
        withheld: Callable[[], str | None],
        counted: Counter,
        allow_private: bool = False,
        timeout_s: float = 10.0,
        clock: Clock | None = None,
        resolver: Resolve = resolve,
    ) -> None:
        """`withheld` says why none must be sent now, or None. Raises SettingsError for a URL that cannot be used."""
        self._sender = sender
        self._url = parse_url(url)
        self._withheld = withheld
        self._counted = counted
        self._allow_private = allow_private
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._resolver = resolver
        self._told: str | None = None

    def beat(self) -> Literal["sent", "withheld", "failed"]:
        """Sends one where it is earned. Raises nothing."""
        reason = self._withheld()
        if reason is not None:
            return self._done("withheld", f"heartbeat of the {self._words()} withheld: {reason}")
        host = self._url.hostname or ""
        try:
            status = exchange(
                "GET",
                self._url,
                body=None,
                headers={"User-Agent": _USER_AGENT},
                allow_private=self._allow_private,
                timeout_s=self._timeout_s,
                clock=self._clock,
                resolver=self._resolver,
            )
        except AddressRefused as error:
            return self._done("failed", f"heartbeat of the {self._words()}: {error}")
        except (OSError, http.client.HTTPException) as error:
            return self._done("failed", f"heartbeat of the {self._words()}: {host!r}: {type(error).__name__}")
        if not 200 <= status < 300:
            return self._done("failed", f"heartbeat of the {self._words()}: {host!r} answered {status}")
        return self._done("sent", None)

    def _done(
        self, result: Literal["sent", "withheld", "failed"], words: str | None
    ) -> Literal["sent", "withheld", "failed"]:
        self._counted.labels(self._sender, result).inc()
        # Once each time it changes: an hour without heartbeats is not an hour of log lines.
        kind = None if words is None else result
        if kind != self._told:
            self._told = kind
            if words is None:
                _LOG.info("heartbeat of the %s sent again", self._words())
            else:
                _LOG.warning("%s", words)
        return result

    def _words(self) -> str:
        return self._sender.replace("_", " ")


@contextmanager
def beating(heartbeat: Heartbeat | None, *, interval_s: float) -> Iterator[None]:
    """Beats every `interval_s` in a thread of its own until the block ends; none for None."""
    if heartbeat is None:
        yield
        return
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(interval_s):
            heartbeat.beat()

    thread = threading.Thread(target=work, name="tracejudge-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        # Not joined: an exchange under way may take its time-out, and the process is about to end.
        stop.set()
