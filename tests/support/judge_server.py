"""A scripted OpenAI-compatible judge over real HTTP on loopback, in a thread of its own.

    with JudgeServer(verdict_by_regex("Paris")) as server:
        client = Judge(base_url=server.base_url)

Scripts are in `judge_script`, replies and errors in `judge_reply`; `python -m tests.support.judge_server --help`
runs one as a process, and `judge_process.JudgeProcess` starts that process for a bench.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from types import TracebackType
from typing import Any

from aiohttp import web

from tests.support.judge_reply import (
    JudgeRequest,
    Reply,
    Script,
    chunk_bodies,
    completion_body,
    error_body,
    error_reply,
    invalid_api_key,
    prompt_hash,
    rate_limit_exceeded,
    text_of,
)
from tests.support.judge_tally import JudgeStats, Tally

_MAX_BODY_BYTES = 64 * 1024 * 1024
_START_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 10.0
_GRACE_S = 0.05  # for calls in flight at the stop; aiohttp takes 0 for "without end"


class JudgeServer:
    """Answers chat completions by a script; every public method may be called from any thread."""

    def __init__(
        self,
        script: Script,
        *,
        port: int = 0,
        api_key: str | None = None,
        models: Sequence[str] = ("judge",),
        max_concurrent: int | None = None,
        retry_after_s: float | None = None,
        keep_requests: int = 10_000,
    ) -> None:
        """Nothing runs yet.

        `api_key` makes a bearer key compulsory. `models` is what GET /v1/models lists; the script refuses unknown
        ones, if it likes. Above `max_concurrent` calls in flight, hanging ones included, the answer is 429 with
        `retry_after_s`.
        """
        self.script = script
        """May be exchanged while the server runs."""
        self._port = port
        self._api_key = api_key
        self._models = tuple(models)
        self._max_concurrent = max_concurrent
        self._retry_after_s = retry_after_s
        self._tally = Tally(keep_requests=keep_requests)
        self._numbers = 0
        self._faults: list[Exception] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._released = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`"""
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """What OpenAI clients call the base URL."""
        return f"{self.url}/v1"

    @property
    def stats(self) -> JudgeStats:
        """The counts now."""
        return self._tally.stats()

    @property
    def requests(self) -> list[JudgeRequest]:
        """The last requests that reached the script, oldest first."""
        return self._tally.requests()

    def wait_for(self, reached: Callable[[JudgeStats], bool], *, timeout_s: float = 10.0) -> JudgeStats:
        """Blocks until the counts satisfy `reached`; raises TimeoutError with the counts."""
        return self._tally.wait_for(reached, timeout_s)

    def release(self) -> None:
        """Let every call that hangs now be answered; later ones hang again."""
        self._call_soon(self._release)

    def reset(self) -> None:
        """Forget counts, attempts and requests."""
        self._tally.reset()

    def start(self) -> None:
        """Listen; returns when connections are accepted."""
        ready: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="judge-server", daemon=True)
        self._thread.start()
        self._port = ready.result(_START_TIMEOUT_S)

    def stop(self) -> None:
        """Close every connection, hanging ones too. Raises the script's first error, if it raised any."""
        if self._thread is None:
            return
        self._call_soon(self._stopping.set)
        self._thread.join(_STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the judge server did not stop within {_STOP_TIMEOUT_S:g} s")
        self._thread = None
        if self._faults:
            raise self._faults[0]

    def __enter__(self) -> JudgeServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except Exception:
            if error is None:  # the test's own failure says more
                raise

    def _call_soon(self, call: Callable[[], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    def _release(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    def _run(self, ready: Future[int]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except Exception as fault:  # noqa: BLE001 - whoever waits for the start has to learn of it
            if not ready.done():
                ready.set_exception(fault)
            else:
                self._faults.append(fault)

    async def _serve(self, ready: Future[int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._released = asyncio.Event()
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._completions)
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_get("/stats", self._show_stats)
        app.router.add_get("/load", self._show_load)
        # Cancelled with its client: a call nobody waits for is not in flight.
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_GRACE_S)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", self._port, backlog=1024)
            await site.start()
            ready.set_result(runner.addresses[0][1])
            await self._stopping.wait()
        finally:
            await runner.cleanup()

    async def _list_models(self, http: web.Request) -> web.StreamResponse:
        if not self._may(http):
            return _error(invalid_api_key())
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "tests"} for name in self._models]
        return web.json_response({"object": "list", "data": listed})

    async def _show_load(self, http: web.Request) -> web.StreamResponse:
        return web.json_response(asdict(self._tally.load()))

    async def _show_stats(self, http: web.Request) -> web.StreamResponse:
        return web.json_response(self.stats.as_dict())

    async def _completions(self, http: web.Request) -> web.StreamResponse:
        in_flight = self._tally.enter()
        try:
            reply, request = await self._decide(http, in_flight)
            return await self._answer(http, request, reply)
        except (asyncio.CancelledError, ConnectionError):
            self._tally.abandoned()
            raise
        finally:
            self._tally.leave()

    async def _decide(self, http: web.Request, in_flight: int) -> tuple[Reply, JudgeRequest | None]:
        if not self._may(http):
            return invalid_api_key(), None
        if self._max_concurrent is not None and in_flight > self._max_concurrent:
            return rate_limit_exceeded(retry_after_s=self._retry_after_s), None
        try:
            body = json.loads(await http.read())
            model, messages = str(body["model"]), list(body["messages"])
            prompt = text_of(messages)
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            message = f"We could not parse the body of your request: {fault!r}"
            return error_reply(400, message, type="invalid_request_error", code=None), None
        hashed = prompt_hash(model, messages)
        request = JudgeRequest(
            model=model,
            messages=messages,
            prompt=prompt,
            prompt_hash=hashed,
            attempt=self._tally.attempt(hashed),
            stream=bool(body.get("stream")),
            response_format=body.get("response_format"),
            headers={name.lower(): value for name, value in http.headers.items()},
            body=body,
        )
        self._tally.record(request)
        try:
            return self.script(request), request
        except Exception as fault:  # noqa: BLE001 - a wrong script must fail the test, not the judge client
            self._faults.append(fault)
            return error_reply(500, f"the script raised {fault!r}", type="script_error", code=None), request

    async def _answer(self, http: web.Request, request: JudgeRequest | None, reply: Reply) -> web.StreamResponse:
        if reply.hang:
            await self._released.wait()
        if reply.delay_s > 0:
            await asyncio.sleep(reply.delay_s)
        if reply.drop:
            self._tally.dropped()
            return _drop(http)
        self._tally.answered(reply.status)
        if request is None or reply.status >= 400:
            return _error(reply)
        self._numbers += 1
        created = int(time.time())
        if request.stream:
            chunks = chunk_bodies(request, reply, number=self._numbers, created=created)
            return await _stream(http, reply, chunks)
        return await _whole(http, reply, completion_body(request, reply, number=self._numbers, created=created))

    def _may(self, http: web.Request) -> bool:
        given = http.headers.get("Authorization", "")
        return self._api_key is None or hmac.compare_digest(given.encode(), f"Bearer {self._api_key}".encode())


def _error(reply: Reply) -> web.Response:
    return web.json_response(error_body(reply), status=reply.status, headers=reply.headers)


def _drop(http: web.Request) -> web.Response:
    if http.transport is not None:
        http.transport.abort()
    return web.Response()  # never arrives


async def _whole(http: web.Request, reply: Reply, body: dict[str, Any]) -> web.StreamResponse:
    payload = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    headers = {"Content-Type": "application/json", **reply.headers}
    if reply.malformed == "empty":
        payload = b""
    elif reply.malformed == "not_json":
        payload = reply.content.encode() or b"<html>upstream said no</html>"
    elif reply.malformed == "truncated":
        response = web.StreamResponse(status=reply.status, headers={**headers, "Content-Length": str(len(payload))})
        await response.prepare(http)
        await response.write(payload[: len(payload) // 2])
        if http.transport is not None:
            http.transport.close()  # sends what is buffered, then closes
        return response
    return web.Response(body=payload, status=reply.status, headers=headers)


async def _stream(http: web.Request, reply: Reply, chunks: list[dict[str, Any]]) -> web.StreamResponse:
    events = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks]
    events.append("data: [DONE]\n\n")
    if reply.malformed == "empty":
        events = []
    elif reply.malformed == "not_json":
        events = ["data: <html>upstream said no</html>\n\n"]
    elif reply.malformed == "truncated":
        events = events[: len(events) // 2]
    response = web.StreamResponse(status=reply.status, headers={"Content-Type": "text/event-stream", **reply.headers})
    await response.prepare(http)
    for event in events:
        await response.write(event.encode("utf-8", "surrogatepass"))
    if reply.malformed == "truncated" and http.transport is not None:
        http.transport.close()
        return response
    await response.write_eof()
    return response


if __name__ == "__main__":
    from tests.support.judge_process import main

    main()
