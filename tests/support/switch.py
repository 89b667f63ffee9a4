"""A dead man's switch on loopback."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Switch:
    """Remembers the paths it was asked for; `with Switch() as switch:` answers at `switch.url`."""

    def __init__(self, status: int = 200) -> None:
        self.paths: list[str] = []
        self.asked = threading.Event()
        switch = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                switch.paths.append(self.path)
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()
                switch.asked.set()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}/ping/SECRET-PATH?key=SECRET-KEY"

    def __enter__(self) -> Switch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
