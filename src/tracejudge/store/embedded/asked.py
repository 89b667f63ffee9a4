"""What an HTTP request asks of the engine, in the words of ClickHouse's interface: URL, headers and body."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Final

from aiohttp import BodyPartReader, web

from tracejudge.store.embedded import compression
from tracejudge.store.embedded.engine import EngineError, Statement

_TRANSPORT: Final = frozenset(
    {
        "query", "database", "user", "password", "default_format", "session_id", "session_timeout", "session_check",
        "query_id", "quota_key", "compress", "decompress", "wait_end_of_query", "buffer_size", "role",
        "client_protocol_version", "send_progress_in_http_headers", "http_headers_progress_interval_ms",
        "enable_http_compression", "cancel_http_readonly_queries_on_client_close", "add_http_cors_header",
    }
)  # fmt: skip
"""What HTTP itself consumes; everything else in the URL is a setting or a `param_*`."""


async def read_statement(
    request: web.Request, *, body_bytes: int, memory_bytes: int, execution_s: float, unpack_in: Executor
) -> Statement:
    """The statement of a request, its body unpacked in a thread of `unpack_in`.

    `body_bytes` bounds the body, packed or not; memory and seconds are of a statement that says nothing of its own.
    Raises EngineError for what has no answer here, BodyTooLarge (or aiohttp's word for it), UnknownEncoding, and
    ValueError for a damaged body.
    """
    fields = dict(request.query)
    if fields.get("compress") == "1" or fields.get("decompress") == "1":
        raise EngineError("Code: 48. DB::Exception: native block compression over HTTP. (NOT_IMPLEMENTED)", code=48)
    body = b""
    if request.content_type == "multipart/form-data":
        fields.update(await _form(request, body_bytes=body_bytes))
    elif request.can_read_body:
        packed, encoding = await request.read(), request.headers.get("Content-Encoding", "")
        body = await asyncio.get_running_loop().run_in_executor(
            unpack_in, lambda: compression.unpack(packed, encoding, limit=body_bytes)
        )
    query = fields.get("query", "").encode()
    text = query + b"\n" + body if query and body else query or body
    if not text.strip():
        raise EngineError("Code: 62. DB::Exception: Empty query. (SYNTAX_ERROR)", code=62)
    settings = {k: v for k, v in fields.items() if k not in _TRANSPORT and not k.startswith("param_")}
    read_only = settings.pop("readonly", "0") not in ("", "0")
    settings.setdefault("max_memory_usage", str(memory_bytes))
    settings.setdefault("max_execution_time", f"{execution_s:g}")
    return Statement(
        sql=text,
        database=fields.get("database") or request.headers.get("X-ClickHouse-Database") or "default",
        params={k[6:]: v for k, v in fields.items() if k.startswith("param_")},
        settings=settings,
        read_only=read_only,
        default_format=fields.get("default_format") or request.headers.get("X-ClickHouse-Format") or "TabSeparated",
    )


async def _form(request: web.Request, *, body_bytes: int) -> dict[str, str]:
    """The fields of a form, which the driver sends where parameters are too long for a URL."""
    fields: dict[str, str] = {}
    form = await request.multipart()
    size = 0
    while (part := await form.next()) is not None:
        if not isinstance(part, BodyPartReader) or part.filename is not None:
            raise EngineError("Code: 48. DB::Exception: external data. (NOT_IMPLEMENTED)", code=48)
        content = bytearray()
        while chunk := await part.read_chunk():
            size += len(chunk)
            if size > body_bytes:
                raise compression.BodyTooLarge
            content += chunk
        fields[part.name or ""] = part.decode(bytes(content)).decode()
    return fields


def session_lifetime_s(request: web.Request) -> float:
    """How long the request's session lives after it, seconds; 60 where the client says nothing that is a number."""
    try:
        value = float(request.query.get("session_timeout") or 60)
    except ValueError:
        return 60.0
    return min(max(value, 1.0), 3600.0) if value == value else 60.0
