"""Events as plain e-mail, one message an event."""

from __future__ import annotations

import json
import smtplib
import socket
import ssl
from collections.abc import Sequence
from datetime import timezone
from email.message import EmailMessage
from typing import Any

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.notifiers.address import Address, AddressRefused, Resolve, checked_address, resolve
from tracejudge.alerts.notifiers.formats import incident_key
from tracejudge.alerts.notify import NotDelivered
from tracejudge.alerts.wire import event_to_json


class _To:
    """A connection to the address that was checked, whatever the name leads to by now; the name is for TLS alone."""

    def __init__(self, address: Address, *names: Any, **more: Any) -> None:
        self._address = address  # first: smtplib connects as it is made
        super().__init__(*names, **more)

    def _get_socket(self, _host: str, port: int, timeout: float) -> socket.socket:
        made: socket.socket = super()._get_socket(self._address.host, port, timeout)  # type: ignore[misc]
        return made


class _PlainTo(_To, smtplib.SMTP):
    pass


class _TlsTo(_To, smtplib.SMTP_SSL):
    pass


class EmailNotifier:
    """Sends through an SMTP server: with TLS from the first byte (`tls`), else by STARTTLS where a password is sent.

    An alert and its end are in one thread. `timeout_s` bounds each wait of the exchange.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        sender: str,
        recipients: Sequence[str],
        user: str | None = None,
        password: str | None = None,
        tls: bool = False,
        name: str = "email",
        allow_private: bool = False,
        timeout_s: float = 10.0,
        resolver: Resolve = resolve,
    ) -> None:
        self._name = name
        self._host, self._port = host, port
        self._sender, self._recipients = sender, tuple(recipients)
        self._user, self._password = user, password
        self._tls = tls
        self._allow_private = allow_private
        self._timeout_s = timeout_s
        self._resolver = resolver

    @property
    def name(self) -> str:
        return self._name

    def notify(self, event: AlertEvent) -> None:
        try:
            address = checked_address(
                self._host, self._port, allow_private=self._allow_private, resolver=self._resolver
            )
            with self._connect(address) as server:
                if self._password is not None:
                    if not self._tls:
                        server.starttls(context=ssl.create_default_context())
                    server.login(self._user or self._sender, self._password)
                server.send_message(self._message(event))
        except AddressRefused as error:
            raise NotDelivered(f"{self._name}: {error}") from error
        except smtplib.SMTPAuthenticationError as error:
            raise NotDelivered(f"{self._name}: {self._host!r} refused the login ({error.smtp_code})") from error
        except (OSError, smtplib.SMTPException) as error:
            raise NotDelivered(f"{self._name}: {self._host!r} did not take it: {type(error).__name__}") from error

    def _connect(self, address: Address) -> smtplib.SMTP:
        if self._tls:
            context = ssl.create_default_context()
            return _TlsTo(address, self._host, self._port, timeout=self._timeout_s, context=context)
        return _PlainTo(address, self._host, self._port, timeout=self._timeout_s)

    def _message(self, event: AlertEvent) -> EmailMessage:
        message = EmailMessage()
        # Names come from producers: a line break in one would start a header of its own.
        summary = "".join(char if char.isprintable() else "?" for char in event.summary)
        message["Subject"] = f"[tracejudge] {event.kind}: {summary}"[:250]
        message["From"], message["To"] = self._sender, ", ".join(self._recipients)
        message["Date"] = event.at.astimezone(timezone.utc)
        thread = f"<{incident_key(event).encode('ascii', 'replace').decode().replace(' ', '_')[:200]}@tracejudge>"
        message["References"] = thread
        message["Message-ID"] = f"<{event.event_id}@tracejudge>"
        message.set_content(f"{summary}\n\n{json.dumps(event_to_json(event), indent=2, ensure_ascii=True)}\n")
        return message
