"""ClickHouse's HTTP interface over the engine: enough of it for the unmodified client, curl and BI tools.

Always a password (compared in constant time) and always a Host check: any web page may send requests to a port on
loopback, and through DNS rebinding read the answers.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import uuid
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, cast

from aiohttp import web

from tracejudge.store.embedded import compression
from tracejudge.store.embedded.asked import read_statement, session_lifetime_s
from tracejudge.store.embedded.engine import Engine, EngineError, Statement, Summary
from tracejudge.store.embedded.outlet import Failed, Outlet, Whole
from tracejudge.store.embedded.sessions import Sessions

logger = logging.getLogger(__name__)

USER: Final = "tracejudge"
INSTANCE_HEADER: Final = "X-Tracejudge-Instance"
"""Names the owner in every answer, so that a client sends its password to nobody else."""

_STATUS: Final = {516: 401, 497: 403, 164: 403, 60: 404, 81: 404, 62: 400, 47: 400, 48: 501, 159: 408, 202: 503}
_MAX_WAITING: Final = 256
_SHUTDOWN_S: Final = 5.0  # for statements under way when it stops; then what only reads is cancelled
_ACCEPTED_S: Final = 0.02  # in which the loop makes connections of what it has accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the server. Bytes are of one request's body, packed or not."""

    concurrent: int = 8
    body_bytes: int = 256 * 1024 * 1024
    held_bytes: int = 1024 * 1024 * 1024  # of all requests together, waiting ones included
    memory_bytes: int = 2_000_000_000  # of one statement, unless it says otherwise
    execution_s: float = 300.0


class EmbeddedServer:
    """One loopback port in front of an engine. `start` and `stop` run on its event loop."""

    def __init__(self, engine: Engine, *, password: str, instance: str, limits: Limits) -> None:
        self._engine = engine
        self._password = password.encode()
        self._instance = instance
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.concurrent, thread_name_prefix="tracejudge-chdb")
        # Not the loop's default one: at the interpreter's exit that can no longer be shut down.
        self._helpers = ThreadPoolExecutor(2, thread_name_prefix="tracejudge-store-helper")
        self._running = asyncio.Semaphore(limits.concurrent)
        self._waiting = 0
        self._held = 0
        self._sessions = Sessions(engine)
        self._stopping = False
        self._unread: set[asyncio.BaseTransport] = set()  # of requests whose bodies are not there yet
        self._at_work: set[asyncio.Future[None]] = set()
        self._hosts: frozenset[str] = frozenset()
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None

    async def start(self) -> int:
        """Listens on a free port of 127.0.0.1 and returns it."""
        app = web.Application(client_max_size=self._limits.body_bytes)
        app.router.add_route("GET", "/ping", self._ping)
        app.router.add_route("GET", "/replicas_status", self._ping)
        app.router.add_route("*", "/", self._query)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,  # a client that goes away stops its query
            auto_decompress=False,  # unpacked here, within the limit
            max_line_size=1 << 20,  # parameters travel in the URL
            max_field_size=1 << 16,
            keepalive_timeout=60.0,
            shutdown_timeout=_SHUTDOWN_S,
        )
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await self._site.start()
        port = int(self._runner.addresses[0][1])
        self._hosts = frozenset(f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]"))
        return port

    async def stop(self) -> None:
        """Takes no more requests, lets running statements end, and closes the sessions.

        Who is not at work yet is turned away, and finds the next owner. A statement that only reads is cancelled after
        some seconds; one that writes runs to its end.
        """
        self._stopping = True
        # From here on nothing that arrives is read: their handlers would wait for bodies in vain.
        for transport in self._unread:
            cast(asyncio.Transport, transport).abort()
        if self._runner is not None and self._site is not None:
            await self._site.stop()
            # A connection made after the cleanup would stay open, with a client that waits for an answer.
            await asyncio.sleep(_ACCEPTED_S)
            await self._runner.cleanup()
        while self._at_work:  # the loop has to turn for it: a handler may have to cancel its statement
            await asyncio.wait(self._at_work)
        self._helpers.shutdown()
        self._threads.shutdown()
        self._sessions.close()

    async def _ping(self, request: web.Request) -> web.StreamResponse:
        if (refused := self._wrong_host(request)) is not None:
            return refused
        return web.Response(text="Ok.\n", headers=self._headers())

    async def _query(self, request: web.Request) -> web.StreamResponse:
        if (refused := self._wrong_host(request)) is not None:
            return refused
        if not self._authenticated(request):
            return self._error(
                "Code: 516. DB::Exception: Authentication failed: password is incorrect, or there is no user with "
                "such name. (AUTHENTICATION_FAILED)",
                code=516,
            )
        if request.method not in ("GET", "POST"):
            return self._error("Code: 48. DB::Exception: only GET and POST. (NOT_IMPLEMENTED)", code=48)
        if request.method == "GET" and not request.query.get("query"):
            return web.Response(text="Ok.\n", headers=self._headers())
        transport = request.transport
        if transport is None or self._stopping:
            if transport is not None:
                transport.close()  # without an answer: the client looks for the next owner
            return web.Response(status=503)
        self._unread.add(transport)
        try:
            statement = await read_statement(
                request,
                body_bytes=self._limits.body_bytes,
                memory_bytes=self._limits.memory_bytes,
                execution_s=self._limits.execution_s,
                unpack_in=self._helpers,
            )
        except compression.BodyTooLarge:
            return self._too_large()
        except web.HTTPRequestEntityTooLarge:
            return self._too_large()
        except compression.UnknownEncoding as error:
            return self._error(f"Code: 48. DB::Exception: {error}. (NOT_IMPLEMENTED)", code=48)
        except ValueError as error:
            return self._error(f"Code: 36. DB::Exception: {error}. (BAD_ARGUMENTS)", code=36)
        except EngineError as error:
            return self._error(str(error), code=error.code)
        finally:
            self._unread.discard(transport)
        if (request.method == "GET" or statement.read_only) and not statement.reads:
            return self._error(
                "Code: 164. DB::Exception: Cannot execute query in readonly mode: GET and `readonly` only read. "
                "(READONLY)",
                code=164,
            )
        size = len(statement.sql)
        if self._waiting >= _MAX_WAITING or (self._held and self._held + size > self._limits.held_bytes):
            return self._error(
                "Code: 202. DB::Exception: Too many simultaneous queries. (TOO_MANY_SIMULTANEOUS_QUERIES)", code=202
            )
        self._held += size
        try:
            return await self._in_turn(request, statement)
        finally:
            self._held -= size

    async def _in_turn(self, request: web.Request, statement: Statement) -> web.StreamResponse:
        self._waiting += 1
        try:
            await self._running.acquire()
        finally:
            self._waiting -= 1
        try:
            if self._stopping:
                return self._error("Code: 210. DB::Exception: the owner is closing. (NETWORK_ERROR)", code=210)
            return await self._execute(request, statement)
        finally:
            self._running.release()

    async def _execute(self, request: web.Request, statement: Statement) -> web.StreamResponse:
        query_id = request.query.get("query_id") or str(uuid.uuid4())
        loop = asyncio.get_running_loop()
        outlet = Outlet(loop, whole=request.query.get("wait_end_of_query") == "1")
        session = request.query.get("session_id")
        lifetime_s = session_lifetime_s(request)
        work = loop.run_in_executor(self._threads, self._work, statement, outlet, session, lifetime_s)
        self._at_work.add(work)
        work.add_done_callback(self._at_work.discard)
        try:
            first = await outlet.first()
            if isinstance(first, Failed):
                return self._error(str(first.error), code=first.error.code, query_id=query_id)
            headers = self._headers(query_id, first.summary)
            packer = None
            if request.query.get("enable_http_compression") == "1":
                packer = compression.compressor_for(request.headers.get("Accept-Encoding", ""))
            if packer is not None:
                headers["Content-Encoding"] = packer[0]
            if isinstance(first, Whole):
                body = first.body if packer is None else packer[1].compress(first.body) + packer[1].flush()
                return web.Response(body=body, headers=headers)
            return await self._stream(request, outlet, headers, packer[1] if packer else None)
        except (asyncio.CancelledError, ConnectionError):  # the client has gone
            outlet.abandon()
            if statement.reads and outlet.handle_name:
                # An INSERT runs to its end: the client will send it again, and the same rows change nothing.
                with suppress(EngineError):
                    await asyncio.shield(loop.run_in_executor(self._helpers, self._engine.kill, outlet.handle_name))
            raise
        finally:
            # The place in the semaphore is free only when the thread is.
            with suppress(asyncio.CancelledError):
                await asyncio.shield(work)

    async def _stream(
        self, request: web.Request, outlet: Outlet, headers: dict[str, str], packer: compression.Compressor | None
    ) -> web.StreamResponse:
        tag = secrets.token_hex(8)
        response = web.StreamResponse(headers={**headers, "X-ClickHouse-Exception-Tag": tag})
        response.enable_chunked_encoding()
        await response.prepare(request)
        async for piece in outlet.pieces():
            if isinstance(piece, EngineError):
                # The form in which a server of 25.11 or later tells of an error after the headers are out.
                text = f"{piece}\n".encode()
                piece = b"__exception__\r\n%b\r\n%b%d %b\r\n__exception__\r\n" % (
                    tag.encode(), text, len(text), tag.encode(),
                )  # fmt: skip
            await response.write(piece if packer is None else packer.compress(piece))
        if packer is not None:
            await response.write(packer.flush())
        await response.write_eof()
        return response

    def _work(self, statement: Statement, outlet: Outlet, session: str | None, lifetime_s: float) -> None:
        """Runs in a thread of the pool, one statement at a time."""
        summary = Summary()
        try:
            self._sessions.expire()
            context = self._engine.handle(statement) if session is None else self._sessions.handle(session, lifetime_s)
            outlet.summary = summary
            with context as handle:
                outlet.handle_name = handle.name
                # Closed here: a stream left open would keep the handle from its next statement.
                with closing(handle.run(statement, summary)) as pieces:
                    for piece in pieces:
                        if not outlet.put(piece):
                            return
            outlet.finish()
        except EngineError as error:
            outlet.fail(error)
        except Exception as error:  # a thread's last line of defence: the client must hear of it
            logger.exception("the embedded engine failed")
            outlet.fail(EngineError(f"Code: 1001. DB::Exception: {type(error).__name__}: {error}", code=1001))

    def _wrong_host(self, request: web.Request) -> web.Response | None:
        if request.headers.get("Host", "").lower() in self._hosts:
            return None
        return web.Response(status=403, text="Host is not this server's: connect to 127.0.0.1 and its port\n")

    def _authenticated(self, request: web.Request) -> bool:
        user, password = "", ""
        authorization = request.headers.get("Authorization", "")
        if authorization.lower().startswith("basic "):
            with suppress(ValueError):
                user, _, password = b64decode(authorization[6:], validate=True).decode().partition(":")
        elif "X-ClickHouse-User" in request.headers:
            user = request.headers["X-ClickHouse-User"]
            password = request.headers.get("X-ClickHouse-Key", "")
        else:
            user, password = request.query.get("user", ""), request.query.get("password", "")
        # Both are always compared, each in constant time.
        # A header that is no UTF-8 arrives with surrogates for its bytes: no user's name, and no fault of ours.
        return hmac.compare_digest(user.encode(errors="surrogateescape"), USER.encode()) & hmac.compare_digest(
            password.encode(errors="surrogateescape"), self._password
        )

    def _headers(self, query_id: str = "", summary: Summary | None = None) -> dict[str, str]:
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "X-ClickHouse-Server-Display-Name": "tracejudge-embedded",
            "X-ClickHouse-Timezone": "UTC",
            INSTANCE_HEADER: self._instance,
        }
        if query_id:
            headers["X-ClickHouse-Query-Id"] = query_id
        if summary is not None:
            headers["X-ClickHouse-Summary"] = json.dumps(summary.as_json())
            if summary.format is not None:
                headers["X-ClickHouse-Format"] = summary.format
        return headers

    def _error(self, message: str, *, code: int, query_id: str = "") -> web.Response:
        headers = self._headers(query_id)
        headers["X-ClickHouse-Exception-Code"] = str(code)
        return web.Response(status=_STATUS.get(code, 500), text=message + "\n", headers=headers)

    def _too_large(self) -> web.Response:
        response = self._error(
            f"Code: 290. DB::Exception: request body above {self._limits.body_bytes} bytes: send fewer rows at once. "
            "(LIMIT_EXCEEDED)",
            code=290,
        )
        response.set_status(413)
        return response
