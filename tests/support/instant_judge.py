"""A judge over real HTTP that says the same to everybody and costs next to nothing: a bench of what asks the judge has
no core to spare for the judge."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Final

_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


async def serve_instantly(content: str, *, port: int, done: asyncio.Event) -> None:
    """Answers every request with `content`, prints the base URL first, and ends when `done` is set."""
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "judge",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"},
        ],
        "usage": {"prompt_tokens": 600, "completion_tokens": 12, "total_tokens": 612},
    }
    payload = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
    answer = head.encode() + payload
    server = await asyncio.get_running_loop().create_server(lambda: _Answering(answer), "127.0.0.1", port, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    async with server:
        await done.wait()


class _Answering(asyncio.Protocol):
    """One connection."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._seen = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._seen += data
        while (end := self._seen.find(_END)) >= 0:
            length = _LENGTH.search(self._seen, 0, end + 2)
            whole = end + len(_END) + (int(length[1]) if length else 0)
            if len(self._seen) < whole:
                return
            del self._seen[:whole]
            assert self._transport is not None
            self._transport.write(self._answer)
