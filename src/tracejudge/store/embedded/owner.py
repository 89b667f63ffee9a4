"""The owner: engine, server and event loop of one directory, in a thread of this process."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from tracejudge.errors import MissingExtra
from tracejudge.store.embedded.engine import Engine
from tracejudge.store.embedded.ownership import ENGINE_NAME, DirectoryLock, Endpoint, publish, withdraw

if TYPE_CHECKING:
    from tracejudge.store.embedded.server import EmbeddedServer

_HANDLES = 8


class Owner:
    """Serves a directory from `start` until `stop`. The lock is handed in held, and released at the end."""

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        self._directory = directory
        self._lock = lock
        self._ready: Future[Endpoint] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="tracejudge-store-owner", daemon=True)
        self.endpoint: Endpoint
        self.server: EmbeddedServer

    @property
    def alive(self) -> bool:
        """False once its thread has ended."""
        return self._thread.is_alive()

    def start(self) -> Endpoint:
        """Opens the engine, serves, publishes. Raises what opening raised, the lock being released then."""
        withdraw(self._directory)  # of an owner that was killed: nobody must take it for this one
        self._thread.start()
        self.endpoint = self._ready.result()
        return self.endpoint

    def stop(self) -> None:
        """Takes no more requests, ends the running ones, leaves the directory and lets the next owner in."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                raise
        finally:
            withdraw(self._directory)
            self._lock.release()

    async def _serve(self) -> None:
        try:
            from tracejudge.store.embedded.server import USER, EmbeddedServer, Limits
        except ImportError as error:
            raise MissingExtra("an embedded store (chdb://)", extra="consumer,embedded") from error
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        engine_path = self._directory / ENGINE_NAME
        engine_path.mkdir(mode=0o700, exist_ok=True)
        limits = Limits()
        # One more than run at once: a session's handle is not of the pool.
        engine = Engine(engine_path, handles=max(_HANDLES, limits.concurrent))
        try:
            password, instance = secrets.token_urlsafe(32), secrets.token_hex(16)
            server = EmbeddedServer(engine, password=password, instance=instance, limits=limits)
            self.server = server
            port = await server.start()
            try:
                endpoint = Endpoint(
                    host="127.0.0.1", port=port, user=USER, password=password, instance=instance, pid=os.getpid()
                )
                publish(self._directory, endpoint)
                self._ready.set_result(endpoint)
                await self._stopping.wait()
            finally:
                await server.stop()
        finally:
            engine.close()
