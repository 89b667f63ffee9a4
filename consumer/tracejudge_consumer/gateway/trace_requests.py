"""Requests that bring traces: a bounded body, its lines, and what became of each once the queue has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from aiohttp import web

from tracejudge_consumer.contract import Fault
from tracejudge_consumer.gateway.answer_json import json_answer
from tracejudge_consumer.gateway.answers import LineAnswer, Refusal, queue_away, retry_after, status_of, summary
from tracejudge_consumer.gateway.body import Budget, read_body, too_long
from tracejudge_consumer.gateway.forms import form_of
from tracejudge_consumer.gateway.limits import GatewayLimits
from tracejudge_consumer.gateway.lines import BodyKind, ReadLine, read_lines
from tracejudge_consumer.gateway.metrics import GatewayMetrics
from tracejudge_consumer.gateway.writer import Outcome, QueueAway, QueueWriter

_READERS: Final = 2  # threads that read lines: work for the CPU


class TraceRequests:
    """Answers them. For one event loop; close it."""

    def __init__(self, *, writer: QueueWriter, limits: GatewayLimits, metrics: GatewayMetrics) -> None:
        self._writer = writer
        self._limits = limits
        self._metrics = metrics
        self._budget = Budget(limits.max_in_flight_bytes)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="tracejudge-gateway-read")
        self._reading: set[asyncio.Task[bytes]] = set()
        self._ending = False

    def refuse_new(self) -> None:
        """Answers requests from now on with 503: the client has to send again later."""
        self._ending = True

    async def bodies_read(self, timeout_s: float) -> None:
        """Waits for the bodies that are on their way; those that take longer than `timeout_s` are given up."""
        if self._reading:
            await asyncio.wait(set(self._reading), timeout=timeout_s)
        for late in self._reading:
            late.cancel()

    def close(self) -> None:
        """Ends its threads, without waiting for them."""
        self._readers.shutdown(wait=False, cancel_futures=True)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """One answer a line, once the queue has said what became of each. Raises Refusal for the whole request."""
        kind, encoding = form_of(request)
        length, most = request.content_length, self._limits.max_body_bytes
        if length is not None and length > most:
            raise too_long(f"{length} bytes", most)
        if self._ending:
            raise queue_away(1.0)
        held = 0

        def take(size: int) -> None:
            nonlocal held
            self._budget.take(size)
            held += size
            self._metrics.held_bytes.set(self._budget.held)

        try:
            body = await self._body(request, encoding, take)
            return await self._answered(body, kind)
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

    async def _answered(self, body: bytes, kind: BodyKind) -> web.Response:
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
        return json_answer(status, summary(answers), headers)

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
