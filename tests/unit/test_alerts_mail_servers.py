"""Mail servers that are slow, choosy or rude: no mail goes out twice, nobody is left out, no loop stands still."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from tests.unit.test_alerts_told import PLAIN
from tracejudge.alerts import NotDelivered
from tracejudge.alerts.notifiers.email import EmailNotifier
from tracejudge.testing import ManualClock


class MailServer:
    """Speaks SMTP line by line; `answers` replaces its reply to a command or a recipient."""

    def __init__(self, **answers: str) -> None:
        self.mails = 0
        self._answers = {"greeting": "220 hi", "quit": "221 bye", "data": "354 go on", "text": "250 taken", **answers}
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connected, _ = self._listening.accept()
        with connected, connected.makefile("rb") as lines, contextlib.suppress(OSError):

            def say(what: str) -> None:
                connected.sendall(self._answers.get(what, "250 ok").encode() + b"\r\n")

            say("greeting")
            for line in lines:
                words = line.decode().lower().split()
                say(words[1].removeprefix("to:").strip("<>") if words[0] == "rcpt" else words[0])
                if words[0] == "data":
                    while lines.readline() != b".\r\n":
                        pass
                    self.mails += 1
                    say("text")
                if words[0] == "quit":
                    return

    def close(self) -> None:
        self._thread.join()
        self._listening.close()


@pytest.fixture
def servers() -> Iterator[Any]:
    with contextlib.ExitStack() as closing:

        def server(**answers: str) -> MailServer:
            made = MailServer(**answers)
            closing.callback(made.close)
            return made

        yield server


def mail(server: MailServer, **fields: Any) -> EmailNotifier:
    options: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": server.port,
        "sender": "alerts@example.org",
        "recipients": ["a@example.org", "b@example.org"],
        "allow_private": True,
    }
    return EmailNotifier(**{**options, **fields})


def test_a_server_that_has_the_mail_and_is_rude_at_the_farewell_does_not_get_it_again(servers: Any) -> None:
    server = servers(quit="421 busy")
    mail(server).notify(PLAIN)
    assert server.mails == 1


def test_who_of_several_recipients_is_refused_is_named_in_the_log(
    servers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = servers(**{"b@example.org": "550 nobody of that name"})
    mail(server).notify(PLAIN)
    assert server.mails == 1
    assert "refused recipient 'b@example.org' (550)" in caplog.text
    assert "a@example.org" not in caplog.text


@pytest.mark.parametrize(
    ("answers", "fields", "words", "refused"),
    [
        ({"text": "552 too large"}, {}, "answered 552 to the text", True),
        ({"text": "451 later"}, {}, "answered 451 to the text", False),
        ({"mail": "530 log in first"}, {}, "answered 530", False),
        ({"a@example.org": "550 no", "b@example.org": "551 no"}, {}, r"every recipient \(550, 551\)", False),
        ({}, {"password": "p"}, "offers no STARTTLS at port .*; set tls = true", False),
    ],
)
def test_what_a_server_did_not_like_is_said(
    servers: Any, answers: dict[str, str], fields: dict[str, Any], words: str, refused: bool
) -> None:
    with pytest.raises(NotDelivered, match=words) as raised:
        mail(servers(**answers), **fields).notify(PLAIN)
    assert raised.value.refused is refused


class HurriedClock(ManualClock):
    """A second passes with every look at it."""

    def monotonic(self) -> float:
        self.advance(1.0)
        return super().monotonic()


def test_a_server_that_drips_is_cut_off(servers: Any) -> None:
    clock = HurriedClock(datetime(2026, 1, 1, tzinfo=timezone.utc))
    server = servers()
    with pytest.raises(NotDelivered, match="longer than 4 s"):
        mail(server, timeout_s=1.0, clock=clock).notify(PLAIN)
    assert server.mails == 0
