"""Any service that Apprise knows: chat, push, mail gateways, some hundred of them, each by a URL of its own form."""

from __future__ import annotations

import logging
from typing import Any

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.notifiers.address import AddressRefused, Resolve, not_public, resolve
from tracejudge.alerts.notifiers.formats import event_line, told
from tracejudge.alerts.notifiers.unlinked import unlinked
from tracejudge.alerts.telling.notify import Message, NotDelivered
from tracejudge.errors import MissingExtra, SettingsError

# Its lines name URLs, which hold the secrets, and no level of it is free of them.
logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)


class AppriseNotifier:
    """Notifies all services of `urls` (separated by spaces); delivered when each of them has accepted.

    A service is known by its number in messages: its URL is the secret. Hosts that a URL names are checked before each
    message; Apprise then connects by itself, and follows redirects, so a name whose owner is not trusted does not
    belong here. Raises SettingsError for URLs that Apprise does not know.
    """

    def __init__(
        self,
        *,
        urls: str,
        name: str = "apprise",
        allow_private: bool = False,
        timeout_s: float = 10.0,
        resolver: Resolve = resolve,
    ) -> None:
        try:
            from apprise import Apprise
        except ModuleNotFoundError as error:
            raise MissingExtra("apprise", extra="apprise") from error
        self._name = name
        self._allow_private = allow_private
        self._resolver = resolver
        self._services: list[Any] = []
        for number, url in enumerate(urls.split(), start=1):
            service = Apprise.instantiate(url, suppress_exceptions=True)
            if service is None:
                raise SettingsError(
                    [f"secret_env: URL {number} of its value is none that Apprise knows; see its list of services"]
                )
            service.socket_connect_timeout = service.socket_read_timeout = timeout_s
            service.request_rate_per_sec = 0.0  # the channel's own limit stands; theirs sleeps
            self._services.append(service)
        if not self._services:
            raise SettingsError(["secret_env: its value holds no URL; write one such as 'ntfy://topic'"])

    @property
    def name(self) -> str:
        return self._name

    def notify(self, event: AlertEvent) -> None:
        body = "\n".join([event_line(event), *told(event)])
        self._send(f"[tracejudge] {event.severity} {event.kind}", body, firing=event.kind == "firing")

    def notify_all(self, message: Message) -> None:
        lines = [event_line(event) for event in message.events]
        if message.held:
            lines.insert(0, "Some of these were delayed by the message limit.")
        firing = any(event.kind == "firing" for event in message.events)
        self._send(f"[tracejudge] {message.title}"[:250], "\n".join(lines), firing=firing)

    def _send(self, title: str, body: str, *, firing: bool) -> None:
        title = unlinked("".join(char if char.isprintable() else "?" for char in title))
        for number, service in enumerate(self._services, start=1):
            which = f"{self._name}: service {number} ({service.service_name})"
            try:
                self._check(service)
                taken = service.notify(
                    body=body, title=title, notify_type="failure" if firing else "info", body_format="text"
                )
            except AddressRefused as error:
                raise NotDelivered(f"{which}: {error}") from error
            # A hundred services raise what they like; the words of their errors may hold the URL.
            except Exception as error:  # noqa: BLE001 - see above
                raise NotDelivered(f"{which} raised {type(error).__name__}") from None
            if not taken:
                raise NotDelivered(f"{which} did not take it; try its URL with the apprise command")

    def _check(self, service: Any) -> None:
        """Refuses a server of one's own in a private network. The error does not name it: a host may be a token."""
        if self._allow_private:
            return
        named = [service.host] if any("{host}" in template for template in service.templates) else []
        for host in (*named, getattr(service, "smtp_host", None)):
            if not isinstance(host, str) or not host:
                continue
            try:
                found = self._resolver(host, service.port or 443)
            except OSError:
                continue  # no name of a server: Apprise will not find it either
            if not_public(entry[4][0] for entry in found):
                raise AddressRefused("its server has no public address; set allow_private = true to allow it")
