"""Events as plain e-mail, one mail a message."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import smtplib
import socket
import ssl
from collections.abc import Sequence
from datetime import timezone
from email.message import EmailMessage
from typing import Any, Final

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.notifiers.address import Address, AddressRefused, Resolve, checked_address, resolve
from tracejudge.alerts.notifiers.deadline import Deadline, DeadlineSocket
from tracejudge.alerts.notifiers.formats import event_line, told
from tracejudge.alerts.notifiers.unlinked import unlinked, unlinked_json
from tracejudge.alerts.telling.incident import incident_key
from tracejudge.alerts.telling.notify import Message, NotDelivered
from tracejudge.alerts.wire import event_to_json
from tracejudge.clock import Clock, SystemClock

_LOG = logging.getLogger(__name__)

_MOST_THREADS: Final = 5  # that one mail names: a header has its limits

_EXCHANGE: Final = 4
"""The whole exchange may take so many times `timeout_s`: its ten waits are short, but for one or two."""


class _To:
    """A connection to the address that was checked, whatever the name leads to by now; the name is for TLS alone. Its
    replies end at the deadline, however slowly they come."""

    sock: Any  # these two are smtplib's own
    file: Any

    def __init__(self, address: Address, deadline: Deadline, *names: Any, **more: Any) -> None:
        self._address, self._deadline = address, deadline  # first: smtplib connects as it is made
        super().__init__(*names, **more)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:  # anew after STARTTLS
            self.file = DeadlineSocket(self.sock, self._deadline).makefile("rb")
        reply: tuple[int, bytes] = super().getreply()  # type: ignore[misc]
        return reply

    def _get_socket(self, _host: str, port: int, timeout: float) -> socket.socket:
        made: socket.socket = super()._get_socket(self._address.host, port, timeout)  # type: ignore[misc]
        return made


class _PlainTo(_To, smtplib.SMTP):
    pass


class _TlsTo(_To, smtplib.SMTP_SSL):
    pass


class EmailNotifier:
    """Sends through an SMTP server: with TLS from the first byte (`tls`), else by STARTTLS where a password is sent.

    An alert and its end are in one thread. `timeout_s` bounds each wait of the exchange, and four times as much the
    whole. What a server takes for some of the recipients only is delivered, and the log names the others.
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
        clock: Clock | None = None,
        resolver: Resolve = resolve,
    ) -> None:
        self._name = name
        self._host, self._port = host, port
        self._sender, self._recipients = sender, tuple(recipients)
        self._user, self._password = user, password
        self._tls = tls
        self._allow_private = allow_private
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
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
            server = self._connect(address)
            try:
                if self._password is not None:
                    self._log_in(server, self._password)
                refused = server.send_message(mail)
                # It has the mail: what it says to a farewell would only make it come again.
                with contextlib.suppress(OSError, smtplib.SMTPException):
                    server.quit()
            finally:
                server.close()
        except AddressRefused as error:
            raise NotDelivered(f"{self._name}: {error}") from error
        except smtplib.SMTPAuthenticationError as error:
            raise NotDelivered(f"{self._name}: {self._host!r} refused the login ({error.smtp_code})") from error
        except smtplib.SMTPDataError as error:
            said = f"{self._name}: {self._host!r} did not take it: it answered {error.smtp_code} to the text"
            raise NotDelivered(said, refused=error.smtp_code >= 500) from error
        except (OSError, smtplib.SMTPException) as error:
            raise NotDelivered(f"{self._name}: {self._host!r} did not take it: {_words(error)}") from error
        for recipient, (code, _) in refused.items():
            _LOG.warning(
                "%s: %r refused recipient %r (%d) and took it for the others", self._name, self._host, recipient, code
            )

    def _log_in(self, server: smtplib.SMTP, password: str) -> None:
        if not self._tls:
            server.ehlo_or_helo_if_needed()
            if not server.has_extn("starttls"):
                raise NotDelivered(
                    f"{self._name}: {self._host!r} offers no STARTTLS at port {self._port}, and no password is sent "
                    "without TLS; set tls = true with a port of TLS, or remove secret_env"
                )
            server.starttls(context=ssl.create_default_context())
        server.login(self._user or self._sender, password)

    def _connect(self, address: Address) -> smtplib.SMTP:
        deadline = Deadline(_EXCHANGE * self._timeout_s, clock=self._clock)
        if self._tls:
            context = ssl.create_default_context()
            return _TlsTo(address, deadline, self._host, self._port, timeout=self._timeout_s, context=context)
        return _PlainTo(address, deadline, self._host, self._port, timeout=self._timeout_s)

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


def _words(error: Exception) -> str:
    """What a failure was, without what the server said: that may quote the mail."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{type(error).__name__}, it answered {error.smtp_code}"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "it refused every recipient (" + ", ".join(f"{code}" for code, _ in error.recipients.values()) + ")"
    if isinstance(error, smtplib.SMTPServerDisconnected):
        return str(error)
    return type(error).__name__
