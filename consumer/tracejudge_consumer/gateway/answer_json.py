"""A value as the gateway's JSON answer."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tracejudge_consumer.terminal.rendering import to_json


def json_answer(status: int, body: Any, headers: dict[str, str] | None = None) -> web.Response:
    """`body` with `status`; no browser is to guess at it, and nobody is to keep it."""
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
