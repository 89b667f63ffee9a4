"""The gateway's HTTP server: its port, who is let in, what it says of itself, and its end.

POST /v1/traces   JSON (an object or an array) or JSONL, gzip or not; needs the key where one is set
GET  /live        503 asks for a restart: the writer has ended, or has been in one call for over a minute
GET  /ready       503 asks for patience: the queue does not take records, or the gateway is stopping
GET  /metrics     for Prometheus; needs the key where one is set
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import traceback
from collections.abc import Callable, Collection
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tracejudge.clock import Clock, SystemClock
from tracejudge.errors import SettingsError
from tracejudge_consumer.gateway.admission import Admission
from tracejudge_consumer.gateway.answer_json import json_answer
from tracejudge_consumer.gateway.answers import Refusal, internal_error, method_not_allowed
from tracejudge_consumer.gateway.connections import BoundedServer
from tracejudge_consumer.gateway.limits import GatewayLimits
from tracejudge_consumer.gateway.metrics import GatewayMetrics
from tracejudge_consumer.gateway.trace_requests import TraceRequests
from tracejudge_consumer.gateway.writer import QueueWriter
from tracejudge_consumer.retry_policy import RetryPolicy
from tracejudge_sdk.transports import Transport

_LOG = logging.getLogger(__name__)

PATH: Final = "/v1/traces"
_STUCK_S: Final = 60.0  # a Kafka batch takes some 12 s at most


class Gateway:
    """One port in front of a queue. `start` and `stop` run on its event loop."""

    def __init__(
        self,
        make_transport: Callable[[], Transport],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        hosts: Collection[str] = (),
        keys: Collection[str] = (),
        key_variable: str = "TRACEJUDGE_INGEST_KEY",
        limits: GatewayLimits | None = None,
        tls: ssl.SSLContext | None = None,
        metrics: GatewayMetrics | None = None,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`make_transport` opens the queue, and again after each failure, spaced by `retry`; `port` 0: a free one."""
        self._host, self._port, self._tls = host, port, tls
        self._limits = limits or GatewayLimits()
        self._metrics = metrics or GatewayMetrics()
        self._admission = Admission(host=host, hosts=hosts, keys=keys, variable=key_variable)
        self._writer = QueueWriter(
            make_transport,
            retry=retry or RetryPolicy(first_s=1.0),
            clock=clock or SystemClock(),
            metrics=self._metrics,
            on_fatal=self._on_fatal,
        )
        self._requests = TraceRequests(writer=self._writer, limits=self._limits, metrics=self._metrics)
        self._stopping = False
        self._failure: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: web.ServerRunner | None = None

    async def start(self) -> int:
        """Listens, and gives the port. Raises SettingsError for an address that cannot be bound, ConfigError."""
        self._loop = asyncio.get_running_loop()
        self._failure = self._loop.create_future()
        self._writer.start()
        server = BoundedServer(
            self._handle,
            max_connections=self._limits.max_connections,
            first_request_s=self._limits.read_timeout_s,
            open_connections=self._metrics.connections.set,
            access_log=None,
            auto_decompress=False,  # unpacked here, within the limit
            keepalive_timeout=self._limits.read_timeout_s,
            lingering_time=2.0,  # for what a client still sends after it was refused
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=self._limits.drain_timeout_s)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls).start()
        except OSError as error:
            await self.stop()
            fault = f"gateway: {self._host}:{self._port} cannot be bound ({error.strerror}); choose another port"
            raise SettingsError([fault]) from error
        return int(self._runner.addresses[0][1])

    async def failed(self) -> None:
        """Waits until the gateway cannot go on, and raises why."""
        if self._failure is not None:
            await asyncio.shield(self._failure)

    async def stop(self) -> None:
        """Takes nothing new on, lets requests under way end within `drain_timeout_s`, closes the queue."""
        self._stopping = True
        self._requests.refuse_new()
        if self._runner is not None:
            for site in list(self._runner.sites):
                await site.stop()
            # Before the cleanup, from which on nothing that arrives is read any more.
            await self._requests.bodies_read(self._limits.drain_timeout_s)
            await self._runner.cleanup()
        await asyncio.get_running_loop().run_in_executor(None, self._writer.close, self._limits.drain_timeout_s)
        self._requests.close()
        if self._failure is not None and not self._failure.done():
            self._failure.cancel()

    def trouble(self) -> tuple[str, ...]:
        """Why it is not ready, in words; empty when it is."""
        found = ["the gateway is stopping"] if self._stopping else []
        queue = self._writer.trouble
        return tuple(found if queue is None else [*found, f"the queue does not take records: {queue}"])

    def stuck(self) -> str | None:
        """Why it needs a restart; None when it does not."""
        if not self._writer.alive:
            return "the writer has ended"
        if self._writer.stuck_s() > _STUCK_S:
            return f"the queue's client has not come back for {_STUCK_S:g} s"
        return None

    def _on_fatal(self, error: BaseException) -> None:
        _LOG.error("the gateway cannot continue: %s", error)
        loop, failure = self._loop, self._failure
        if loop is not None and failure is not None:
            loop.call_soon_threadsafe(_set_exception, failure, error)

    # One request.

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            self._admission.check_host(request.headers)
            if request.path == PATH:
                if request.method != "POST":
                    raise method_not_allowed("POST")
                self._admission.check_no_page(request.headers)
                self._admission.check_key(request.headers)
                response = await self._requests.answer(request)
            elif request.path in ("/live", "/ready", "/metrics"):
                response = self._status(request)
            else:
                raise Refusal(
                    404, reason="no_such_path", value=repr(request.path[:80]), limit=PATH, remedy=f"use {PATH}"
                )
        except Refusal as refusal:
            self._metrics.refused.labels(refusal.fault.reason).inc()
            response = json_answer(refusal.status, refusal.body(), refusal.headers)
            if not request.content.is_eof():
                response.force_close()  # what it still sends is nothing that we want to read
        except (ConnectionError, asyncio.CancelledError):
            raise  # the client went away
        except Exception as error:  # noqa: BLE001 - a fault of ours must end no other request, and its words may quote one
            frame = traceback.extract_tb(error.__traceback__)[-1]
            _LOG.error("a request failed: %s at %s:%s", type(error).__name__, frame.filename, frame.lineno)
            response = json_answer(500, internal_error().body())
        response.headers["Server"] = "tracejudge"  # and no version of anything
        self._metrics.requests.labels(str(response.status)).inc()
        return response

    def _status(self, request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed("GET")
        if request.path == "/metrics":
            self._admission.check_key(request.headers)
            return web.Response(
                body=generate_latest(self._metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
            )
        stuck, trouble = self.stuck(), self.trouble()
        fine = stuck is None and (request.path == "/live" or not trouble)
        reasons = [*([stuck] if stuck else []), *trouble]
        return json_answer(200 if fine else 503, {"live": stuck is None, "ready": not reasons, "reasons": reasons})


def _set_exception(future: asyncio.Future[None], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
