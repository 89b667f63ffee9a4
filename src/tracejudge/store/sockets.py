"""The sockets of the driver's connections: what waits for an answer on one of them can be ended from another thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from urllib3 import PoolManager


class OpenSockets:
    """Every socket of the pools made here. Thread-safe."""

    def __init__(self) -> None:
        self._open: WeakSet[Any] = WeakSet()  # with urllib3's TLS inside TLS it is no socket, and shuts down like one
        self._lock = threading.Lock()
        self._cut = False

    def pool(self, *, maxsize: int) -> PoolManager:
        """A pool of connections for the driver. Needs the extra 'consumer'."""
        from clickhouse_connect.driver.httputil import get_pool_manager
        from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
        from urllib3.connection import HTTPConnection, HTTPSConnection

        add = self._add

        class Plain(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                add(self.sock)

        class Secure(HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                add(self.sock)

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class SecurePool(HTTPSConnectionPool):
            ConnectionCls = Secure

        manager: PoolManager = get_pool_manager(maxsize=maxsize)
        manager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
        return manager

    def cut(self) -> None:
        """Ends all of them, for good: reads give their end, and new connections break at once."""
        with self._lock:
            self._cut = True
            for one in list(self._open):
                _shut(one)

    def _add(self, one: Any) -> None:
        with self._lock:
            self._open.add(one)
            if self._cut:
                _shut(one)


def _shut(one: Any) -> None:
    with contextlib.suppress(OSError):  # closed already
        if isinstance(one, socket.socket):
            # Of the descriptor: TLS would first say goodbye, on a connection that another thread reads from.
            socket.socket.shutdown(one, socket.SHUT_RDWR)
        else:
            one.shutdown(socket.SHUT_RDWR)
