"""A proxy in front of the embedded store's port that breaks connections before or after an insert took effect.

Clients see one address and one password-less ClickHouse, whoever owns the directory behind it at the moment.
"""

from __future__ import annotations

import asyncio
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Literal

import aiohttp
from aiohttp import web

from tracejudge.store.embedded import Endpoint

Break = Literal["before", "after"]

_HOP = frozenset({"host", "authorization", "connection", "transfer-encoding", "content-length", "keep-alive"})
_MAX_BODY_BYTES = 256 * 1024 * 1024


class StoreProxy:
    """One port on loopback. `endpoint` says who serves the directory now, or None while nobody does."""

    def __init__(self, endpoint: Callable[[], Endpoint | None]) -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._to_break: Counter[Break] = Counter()
        self.broken: Counter[Break] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._thread: threading.Thread | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """What a store is opened with."""
        return f"clickhouse://tracejudge@127.0.0.1:{self.port}/default"

    def break_inserts(self, where: Break, count: int) -> None:
        """The next `count` inserts lose their connection: before they are passed on, or after they took effect."""
        with self._lock:
            self._to_break[where] += count

    def __enter__(self) -> StoreProxy:
        ready: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="store-proxy", daemon=True)
        self._thread.start()
        self.port = ready.result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(10)

    def _run(self, ready: Future[int]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except Exception as fault:
            if ready.done():
                raise
            ready.set_exception(fault)

    async def _serve(self, ready: Future[int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._session:
            app = web.Application(client_max_size=_MAX_BODY_BYTES)
            app.router.add_route("*", "/{path:.*}", self._pass)
            runner = web.AppRunner(
                app,
                access_log=None,
                auto_decompress=False,
                max_line_size=1 << 20,
                max_field_size=1 << 16,
                shutdown_timeout=0.05,
            )
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                ready.set_result(int(runner.addresses[0][1]))
                await self._stopping.wait()
            finally:
                await runner.cleanup()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        broken = self._take_break(request, body)
        endpoint = self._endpoint()
        if broken == "before" or endpoint is None:
            return _cut(request)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        password = b64encode(f"{endpoint.user}:{endpoint.password}".encode()).decode()
        headers["Authorization"] = f"Basic {password}"
        try:
            async with self._session.request(
                request.method,
                f"http://{endpoint.host}:{endpoint.port}{request.rel_url.raw_path_qs}",
                data=body or None,
                headers=headers,
                allow_redirects=False,
            ) as answer:
                answered = await answer.read()
                passed = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
                status = answer.status
        except (aiohttp.ClientError, OSError):
            if broken is not None:  # the store died under it: it was no break of ours
                self._put_back(broken)
            return _cut(request)
        if broken == "after":
            if status != 200:
                self._put_back(broken)
            else:
                return _cut(request)
        return web.Response(body=answered, status=status, headers=passed)

    def _take_break(self, request: web.Request, body: bytes) -> Break | None:
        # The client packs the bodies of inserts, and nothing else.
        if "Content-Encoding" not in request.headers and body.lstrip()[:6].upper() != b"INSERT":
            return None
        with self._lock:
            for where in ("before", "after"):
                if self._to_break[where] > 0:
                    self._to_break[where] -= 1
                    self.broken[where] += 1
                    return where
        return None

    def _put_back(self, where: Break) -> None:
        with self._lock:
            self._to_break[where] += 1
            self.broken[where] -= 1


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()  # never arrives
