"""Events as plain e-mail, one mail a message."""

from __future__ import annotations

import hashlib
import json
import smtplib
import socket
import ssl
from collections.abc import Sequence
from datetime import timezone
from email.message import EmailMessage
from typing import Any, Final

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.notifiers.address import Address, AddressRefused, Resolve, checked_address, resolve
from tracejudge.alerts.notifiers.formats import event_line, told
from tracejudge.alerts.notifiers.unlinked import unlinked, unlinked_json
from tracejudge.alerts.telling.incident import incident_key
from tracejudge.alerts.telling.notify import Message, NotDelivered
from tracejudge.alerts.wire import event_to_json

_MOST_THREADS: Final = 5  # that one mail names: a header has its limits


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
        self._send(self._mail(event.kind, event.summary, [event], ident=event.event_id, above=[]))

    def notify_all(self, message: Message) -> None:
        held = ["Some of these were delayed by the message limit.", ""] if message.held else []
        above = [*held, *map(event_line, message.events), ""]
        self._send(self._mail(message.severity, message.title, message.events, ident=message.message_id, above=above))

    def _send(self, mail: EmailMessage) -> None:
        try:
            address = checked_address(
                self._host, self._port, allow_private=self._allow_private, resolver=self._resolver
            )
            with self._connect(address) as server:
                if self._password is not None:
                    if not self._tls:
                        server.starttls(context=ssl.create_default_context())
                    server.login(self._user or self._sender, self._password)
                server.send_message(mail)
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

    def _mail(
        self, kind: str, summary: str, events: Sequence[AlertEvent], *, ident: str, above: Sequence[str]
    ) -> EmailMessage:
        mail = EmailMessage()
        # Names come from producers: a line break in one would start a header of its own.
        summary = unlinked("".join(char if char.isprintable() else "?" for char in summary))
        mail["Subject"] = f"[tracejudge] {kind}: {summary}"[:250]
        mail["From"], mail["To"] = self._sender, ", ".join(self._recipients)
        mail["Date"] = events[0].at.astimezone(timezone.utc)
        threads = dict.fromkeys(map(_thread, events))
        mail["References"] = " ".join(list(threads)[:_MOST_THREADS])
        mail["Message-ID"] = f"<{ident}@tracejudge>"
        written = [json.dumps(unlinked_json(event_to_json(event)), indent=2, ensure_ascii=True) for event in events]
        evidence = [line for event in events for line in told(event)]
        mail.set_content("\n".join([summary, "", *above, *evidence, *([""] if evidence else []), *written, ""]))
        return mail


def _thread(event: AlertEvent) -> str:
    """The id of the incident's thread: short, as a long word in a header is encoded, and no longer an id then."""
    return f"<tracejudge-{hashlib.sha256(incident_key(event).encode()).hexdigest()[:32]}@tracejudge>"
