"""Where the clients of the bench `sdk` send: an HTTP server that takes everything, a port that nobody answers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def accepting_server() -> Iterator[str]:
    """The URL of a server in a process of its own that answers 200 to every POST."""
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.sdk_sinks"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says anything."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(512)
        yield int(listening.getsockname()[1])


def closed_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(Exception):  # a client that goes away
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"transfer-encoding: chunked" in head:
                while size := int((await reader.readuntil(b"\r\n")).strip() or b"0", 16):
                    await reader.readexactly(size + 2)
                await reader.readexactly(2)
            elif b"content-length:" in head:
                await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
            otlp = b"/v1/traces" in head
            body, kind = (b"", b"application/x-protobuf") if otlp else (b"{}", b"application/json")
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(body)) + body
            )
            await writer.drain()
    writer.close()


async def _serve() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, limit=1 << 22)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
