"""A gateway on a free port of loopback, in a thread of its own, and plain requests to it."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tracejudge_consumer.gateway import Gateway
from tracejudge_consumer.gateway.running import run_gateway
from tracejudge_sdk.transports import Transport

PATIENCE_S = 30.0  # a bound for hangs, never waited for


def free_port() -> int:
    """A port of loopback that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RunningGateway:
    """`with RunningGateway(make_transport, ...) as gateway:`; `options` are arguments of Gateway."""

    def __init__(self, make_transport: Callable[[], Transport], **options: Any) -> None:
        self._make = lambda: Gateway(make_transport, **options)
        self._stop = threading.Event()
        self._bound = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> RunningGateway:
        self._thread.start()
        assert self._bound.wait(PATIENCE_S), "the gateway did not start"
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the gateway did not stop"

    def wait_ended(self) -> BaseException | None:
        """What ended it by itself."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the gateway did not end"
        return self._error

    def wait_ready(self) -> None:
        """Returns once it takes records."""
        for _ in range(1000):
            if self.request("GET", "/ready").status == 200:
                return
            threading.Event().wait(0.01)
        raise AssertionError(self.request("GET", "/ready").body)

    def request(
        self, method: str, path: str, body: bytes | Sequence[bytes] | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return Answer(response.status, dict(response.headers), response.read())
        finally:
            connection.close()

    def post(self, body: bytes, *, zipped: bool = False, **headers: str) -> Answer:
        """POST /v1/traces of JSON lines; header names are written with underscores."""
        sent = {"Content-Type": "application/x-ndjson", **{k.replace("_", "-"): v for k, v in headers.items()}}
        if zipped:
            body, sent["Content-Encoding"] = gzip.compress(body), "gzip"
        return self.request("POST", "/v1/traces", body, sent)

    def _run(self) -> None:
        try:
            run_gateway(self._make, self._stop, listening=self._listening)
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            self._error = error
        finally:
            self._bound.set()

    def _listening(self, port: int) -> None:
        self.port = port
        self._bound.set()
