"""The gateway's HTTP server: admission, a bounded body, an answer per line once the queue has it.

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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tracejudge.clock import Clock, SystemClock
from tracejudge.errors import SettingsError
from tracejudge_consumer.contract import Fault
from tracejudge_consumer.gateway.admission import Admission
from tracejudge_consumer.gateway.answers import (
    LineAnswer,
    Refusal,
    internal_error,
    method_not_allowed,
    queue_away,
    retry_after,
    status_of,
    summary,
)
from tracejudge_consumer.gateway.body import Budget, read_body, too_long
from tracejudge_consumer.gateway.connections import BoundedServer
from tracejudge_consumer.gateway.forms import form_of
from tracejudge_consumer.gateway.limits import GatewayLimits
from tracejudge_consumer.gateway.lines import BodyKind, ReadLine, read_lines
from tracejudge_consumer.gateway.metrics import GatewayMetrics
from tracejudge_consumer.gateway.writer import Outcome, QueueAway, QueueWriter
from tracejudge_consumer.rendering import to_json
from tracejudge_consumer.stages.store_calls import RetryPolicy
from tracejudge_sdk.transports import Transport

_LOG = logging.getLogger(__name__)

PATH: Final = "/v1/traces"
_STUCK_S: Final = 60.0  # a Kafka batch takes some 12 s at most
_READERS: Final = 2  # threads that read lines: work for the CPU


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
        self._budget = Budget(self._limits.max_in_flight_bytes)
        self._writer = QueueWriter(
            make_transport,
            retry=retry or RetryPolicy(first_s=1.0),
            clock=clock or SystemClock(),
            metrics=self._metrics,
            on_fatal=self._on_fatal,
        )
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="tracejudge-gateway-read")
        self._stopping = False
        self._failure: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: web.ServerRunner | None = None
        self._reading: set[asyncio.Task[bytes]] = set()

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
        if self._runner is not None:
            for site in list(self._runner.sites):
                await site.stop()
            # Before the cleanup, from which on nothing that arrives is read any more.
            if self._reading:
                await asyncio.wait(set(self._reading), timeout=self._limits.drain_timeout_s)
            for late in self._reading:
                late.cancel()
            await self._runner.cleanup()
        await asyncio.get_running_loop().run_in_executor(None, self._writer.close, self._limits.drain_timeout_s)
        self._readers.shutdown(wait=False, cancel_futures=True)
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
        _LOG.error("the gateway cannot go on: %s", error)
        loop, failure = self._loop, self._failure
        if loop is not None and failure is not None:
            loop.call_soon_threadsafe(_set_exception, failure, error)

    # One request.

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            self._admission.check_host(request.headers)
            if request.path == PATH:
                response = await self._traces(request)
            elif request.path in ("/live", "/ready", "/metrics"):
                response = self._status(request)
            else:
                raise Refusal(
                    404, reason="no_such_path", value=repr(request.path[:80]), limit=PATH, remedy=f"use {PATH}"
                )
        except Refusal as refusal:
            self._metrics.refused.labels(refusal.fault.reason).inc()
            response = _json(refusal.status, refusal.body(), refusal.headers)
            if not request.content.is_eof():
                response.force_close()  # what it still sends is nothing that we want to read
        except (ConnectionError, asyncio.CancelledError):
            raise  # the client went away
        except Exception as error:  # noqa: BLE001 - a fault of ours must end no other request, and its words may quote one
            frame = traceback.extract_tb(error.__traceback__)[-1]
            _LOG.error("a request failed: %s at %s:%s", type(error).__name__, frame.filename, frame.lineno)
            response = _json(500, internal_error().body())
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
        return _json(200 if fine else 503, {"live": stuck is None, "ready": not reasons, "reasons": reasons})

    async def _traces(self, request: web.BaseRequest) -> web.Response:
        if request.method != "POST":
            raise method_not_allowed("POST")
        self._admission.check_no_page(request.headers)
        self._admission.check_key(request.headers)
        kind, encoding = form_of(request)
        length, most = request.content_length, self._limits.max_body_bytes
        if length is not None and length > most:
            raise too_long(f"{length} bytes", most)
        if self._stopping:
            raise queue_away(1.0)
        held = 0

        def take(size: int) -> None:
            nonlocal held
            self._budget.take(size)
            held += size
            self._metrics.held_bytes.set(self._budget.held)

        try:
            body = await self._body(request, encoding, take)
            return await self._answer(body, kind)
        finally:
            self._budget.give_back(held)
            self._metrics.held_bytes.set(self._budget.held)

    async def _body(self, request: web.BaseRequest, encoding: str, take: Callable[[int], None]) -> bytes:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0  # as aiohttp's own: it is no part of the answer
        reading = read_body(
            request.content.iter_any(),
            encoding=encoding,
            max_body_bytes=self._limits.max_body_bytes,
            max_unpacked_bytes=self._limits.max_unpacked_bytes,
            take=take,
        )
        task = asyncio.ensure_future(reading)
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        try:
            return await asyncio.wait_for(task, self._limits.read_timeout_s)
        except asyncio.TimeoutError:
            raise Refusal(
                408,
                reason="too_slow",
                field="body",
                value="it did not end",
                limit=f"{self._limits.read_timeout_s:g} s",
                remedy="send fewer lines in one request",
            ) from None

    async def _answer(self, body: bytes, kind: BodyKind) -> web.Response:
        loop = asyncio.get_running_loop()
        if self._writer.trouble is not None and not self._writer.max_record_bytes:
            raise queue_away(1.0)
        read = partial(
            read_lines,
            body,
            kind,
            max_lines=self._limits.max_lines,
            max_record_bytes=self._writer.max_record_bytes,
        )
        lines: list[ReadLine] = await loop.run_in_executor(self._readers, read)
        good = [line for line in lines if not line.faults]
        outcomes, pause_s = await self._written(good)
        by_line = dict(zip((line.number for line in good), outcomes, strict=True))
        answers = [_line_answer(line, by_line.get(line.number)) for line in lines]
        for answer in answers:
            self._metrics.lines.labels(answer.status).inc()
            if answer.faults:
                self._metrics.refused.labels(answer.faults[0].reason).inc()
        status = status_of(answers)
        headers = {"Retry-After": retry_after(pause_s)} if status == 503 else {}
        return _json(status, summary(answers), headers)

    async def _written(self, lines: list[ReadLine]) -> tuple[list[Outcome], float]:
        """One outcome a line, and after how many seconds to send again what was not taken."""
        if not lines:
            return [], 0.0
        away = [Outcome("away")] * len(lines)
        try:
            future = self._writer.submit([(line.trace_id or "", line.data) for line in lines])
        except QueueAway as error:
            return away, error.retry_after_s
        try:
            outcomes = await asyncio.wait_for(asyncio.wrap_future(future), self._limits.answer_timeout_s)
        except asyncio.TimeoutError:
            return away, 1.0  # it may arrive all the same, and again: the consumer knows a trace by its id
        return outcomes, 1.0


def _set_exception(future: asyncio.Future[None], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _line_answer(line: ReadLine, outcome: Outcome | None) -> LineAnswer:
    if outcome is None:
        return LineAnswer(line=line.number, status="refused", faults=line.faults)
    if outcome.kind == "durable":
        return LineAnswer(line=line.number, status="accepted", trace_id=line.trace_id)
    if outcome.kind == "away":
        return LineAnswer(line=line.number, status="unavailable", trace_id=line.trace_id)
    fault = Fault(
        reason="queue_refused",
        field="",
        value=f"a record of {len(line.data)} bytes",
        limit=outcome.words,
        remedy="shorten its longest texts",
    )
    return LineAnswer(line=line.number, status="refused", trace_id=line.trace_id, faults=(fault,))


def _json(status: int, body: Any, headers: dict[str, str] | None = None) -> web.Response:
    text = to_json(body) + "\n"
    return web.Response(
        status=status,
        body=text.encode("utf-8", "replace"),
        headers={
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            **(headers or {}),
        },
        content_type="application/json",
    )
