"""/metrics, /live and /ready over HTTP, for Prometheus and for whatever supervises the process."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from socketserver import ThreadingMixIn
from typing import Any, Final, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from tracejudge.errors import SettingsError
from tracejudge_consumer.process.host_names import cannot_lead_elsewhere, host_name, is_loopback
from tracejudge_consumer.terminal.rendering import to_json

_LOG = logging.getLogger(__name__)

# wsgiref.types came with Python 3.11.
_App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Report(Protocol):
    """What a look at the process gives; its further fields are shown as they are."""

    @property
    def live(self) -> bool: ...
    @property
    def ready(self) -> bool: ...


class Watched(Protocol):
    """Something that reports its health."""

    def report(self) -> Report: ...


_LONGEST_S: Final = 10.0
"""Of a connection, from its first byte to the last: a client that says its request letter by letter is cut off."""
_MOST_CONNECTIONS: Final = 64


class _Quiet(WSGIRequestHandler):
    def setup(self) -> None:
        self._end = threading.Timer(_LONGEST_S, self._cut_off)
        self._end.daemon = True
        self._end.start()
        super().setup()

    def finish(self) -> None:
        self._end.cancel()
        super().finish()

    def _cut_off(self) -> None:
        with suppress(OSError):  # it has ended by itself
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """A scrape every few seconds is not worth a line."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread a connection: whoever connects and says nothing must not keep the supervisor from its answer, which
    would restart the process."""

    daemon_threads = True

    def __init__(self, *address: Any, **more: Any) -> None:
        super().__init__(*address, **more)
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _LOG.debug("a client of the status server broke off", exc_info=True)


@contextmanager
def status_server(health: Watched, registry: CollectorRegistry, *, host: str, port: int) -> Iterator[int]:
    """Serves until the block ends; gives the port. 503 from /live asks for a restart, from /ready for patience.

    Raises SettingsError when the address cannot be bound.
    """
    try:
        server = make_server(host, port, _app(health, registry, host), server_class=_Server, handler_class=_Quiet)
    except OSError as error:
        fault = f"metrics: {host}:{port} cannot be bound ({error.strerror}); choose another port, or 0 for none"
        raise SettingsError([fault]) from error
    thread = threading.Thread(target=server.serve_forever, name="tracejudge-status", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def _app(health: Watched, registry: CollectorRegistry, host: str) -> _App:
    metrics: _App = make_wsgi_app(registry)
    on_loopback = is_loopback(host)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        asked = environ.get("HTTP_HOST", "")  # HTTP/1.0 probes name nobody; a browser always does
        if on_loopback and asked and not cannot_lead_elsewhere(host_name(asked)):
            status, body = "403 Forbidden", b'{"error": "Host is neither an address nor localhost: ask by one of them"}'
        elif path == "/metrics":
            return metrics(environ, start)
        elif path in ("/live", "/ready"):
            report = health.report()
            fine = report.live if path == "/live" else report.ready
            status = "200 OK" if fine else "503 Service Unavailable"
            body = to_json(report).encode()
        else:
            status, body = "404 Not Found", b'{"paths": ["/live", "/ready", "/metrics"]}'
        start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    return answer
