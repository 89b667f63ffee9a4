"""What a request says its body is."""

from __future__ import annotations

from aiohttp import web

from tracejudge_consumer.gateway.answers import Refusal
from tracejudge_consumer.gateway.lines import CONTENT_TYPES, BodyKind


def form_of(request: web.BaseRequest) -> tuple[BodyKind, str]:
    """Its kind, and its encoding: "identity" or "gzip". Raises Refusal for any other."""
    kind = CONTENT_TYPES.get(request.content_type.lower())
    if kind is None:
        raise Refusal(
            415,
            reason="content_type",
            field="Content-Type",
            value=repr(request.content_type[:80]),
            limit="application/json or application/x-ndjson",
            remedy="send the header `Content-Type: application/x-ndjson` with one JSON object a line",
        )
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    encoding = {"": "identity", "x-gzip": "gzip"}.get(encoding, encoding)
    if encoding not in ("identity", "gzip"):
        raise Refusal(
            415,
            reason="content_encoding",
            field="Content-Encoding",
            value=repr(encoding[:80]),
            limit="gzip, or none",
            remedy="compress with gzip, or not at all",
        )
    return kind, encoding
