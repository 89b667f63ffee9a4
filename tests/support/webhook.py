"""A receiver of webhooks on loopback that keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple


class Request(NamedTuple):
    """One POST as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """`with Receiver() as receiver:` listens at `receiver.url`, whose path and query hold what must stay secret.

    `requests` holds what came, in order of arrival, `bodies` each of it as JSON. It answers with `status`, by default
    that it has taken the message. `on_arrival` is called before the answer is sent, so that a test may kill the sender
    with its message in transit.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.status = 204
        self.on_arrival: Callable[[], None] = lambda: None
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append(Request(self.path, dict(self.headers), body))
                receiver.on_arrival()
                try:
                    self.send_response(receiver.status)
                    if receiver.status == 302:
                        self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except OSError:
                    self.close_connection = True  # the sender is gone

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hooks/s3cr3t-path?token=s3cr3t"

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.body) for request in self.requests]

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
