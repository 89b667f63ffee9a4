"""aiohttp's server with a bound on connections, and on how long one may stay silent before its first request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError


class _NoProtocolErrors(logging.Filter):
    """Drops what says that bytes were no HTTP: anybody who reaches the port could fill the log with tracebacks."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


_HTTP_LOG: Final = logging.getLogger("tracejudge_consumer.gateway.http")
_HTTP_LOG.addFilter(_NoProtocolErrors())


class BoundedServer(web.Server):
    """Answers 503 to a connection above `max_connections`, and closes one without a request after `first_request_s`."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Any],
        *,
        max_connections: int,
        first_request_s: float,
        open_connections: Callable[[float], object],
        **options: Any,
    ) -> None:
        super().__init__(self._noted, logger=_HTTP_LOG, **options)
        self._inner = handler
        self._max_connections = max_connections
        self._first_request_s = first_request_s
        self._tell = open_connections
        self._begun: set[int] = set()

    async def _noted(self, request: web.BaseRequest) -> web.StreamResponse:
        self._begun.add(id(request.protocol))
        response: web.StreamResponse = await self._inner(request)
        return response

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        if len(self.connections) >= self._max_connections:
            transport.write(
                b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )
            transport.close()
        super().connection_made(handler, transport)
        self._tell(len(self.connections))
        asyncio.get_running_loop().call_later(self._first_request_s, self._close_if_silent, handler, transport)

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._begun.discard(id(handler))
        self._tell(len(self.connections))

    def _close_if_silent(self, handler: Any, transport: asyncio.Transport) -> None:
        if id(handler) not in self._begun:
            transport.close()
