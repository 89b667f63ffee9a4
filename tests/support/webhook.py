"""A webhook receiver on loopback that keeps what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class WebhookReceiver:
    """`with WebhookReceiver() as hook:` listens at `hook.url`; `hook.bodies` holds each JSON body, in order of arrival.

    `on_arrival` is called before the answer is sent, so that a test may kill the sender with its message in transit.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.on_arrival: Callable[[], None] = lambda: None
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.bodies.append(body)
                receiver.on_arrival()
                try:
                    self.send_response(204)
                    self.end_headers()
                except OSError:
                    self.close_connection = True  # the sender is gone

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    def __enter__(self) -> WebhookReceiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
