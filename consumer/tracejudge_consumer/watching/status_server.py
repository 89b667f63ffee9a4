"""/metrics, /live and /ready over HTTP, for Prometheus and for whatever supervises the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from tracejudge.errors import SettingsError
from tracejudge_consumer.terminal.rendering import to_json

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


class _Quiet(WSGIRequestHandler):
    timeout = 10  # seconds; a client that says nothing must not hold the only thread

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """A scrape every few seconds is not worth a line."""


@contextmanager
def status_server(health: Watched, registry: CollectorRegistry, *, host: str, port: int) -> Iterator[int]:
    """Serves until the block ends; gives the port. 503 from /live asks for a restart, from /ready for patience.

    Raises SettingsError when the address cannot be bound.
    """
    try:
        server = make_server(host, port, _app(health, registry), server_class=WSGIServer, handler_class=_Quiet)
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


def _app(health: Watched, registry: CollectorRegistry) -> _App:
    metrics: _App = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return metrics(environ, start)
        if path in ("/live", "/ready"):
            report = health.report()
            fine = report.live if path == "/live" else report.ready
            status = "200 OK" if fine else "503 Service Unavailable"
            body = to_json(report).encode()
        else:
            status, body = "404 Not Found", b'{"paths": ["/live", "/ready", "/metrics"]}'
        start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    return answer
