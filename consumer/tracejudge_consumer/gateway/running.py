"""A gateway as part of a process: on an event loop of its own, in a thread, until told to stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from tracejudge_consumer.gateway.server import Gateway

_LOOK_S = 0.1  # how often the stop event is looked at: a signal handler can set nothing of asyncio's


def run_gateway(
    make: Callable[[], Gateway], stop: threading.Event, *, listening: Callable[[int], None] = lambda _: None
) -> None:
    """Serves until `stop` is set; `listening` is called with the port. Raises what ends the gateway."""
    asyncio.run(_serve(make, stop, listening))


async def _serve(make: Callable[[], Gateway], stop: threading.Event, listening: Callable[[int], None]) -> None:
    gateway = make()
    port = await gateway.start()
    listening(port)
    failing = asyncio.ensure_future(gateway.failed())
    try:
        while not stop.is_set():
            done, _ = await asyncio.wait([failing], timeout=_LOOK_S)
            if done:
                failing.result()
                return
    finally:
        failing.cancel()
        await gateway.stop()
