"""HTTP sessions: a handle of its own for each session id, for as long as it is used.

The unmodified client makes a session for every client object and never ends it, so idle ones are closed by age and
number.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tracejudge.store.embedded.engine import Engine, EngineError, Handle

_MAX_SESSIONS: Final = 128


@dataclass(slots=True)
class _Session:
    handle: Handle
    busy: bool
    expires_at: float


class Sessions:
    """The open sessions of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._open: dict[str, _Session] = {}
        self._lock = threading.Lock()
        self._made = 0

    @contextmanager
    def handle(self, session_id: str, lifetime_s: float) -> Iterator[Handle]:
        """The session's handle. Raises EngineError 373 while another request of the session runs."""
        with self._lock:
            self._expire()
            session = self._open.get(session_id)
            if session is None:
                self._make_room()
                self._made += 1
                handle = self._engine.session_handle(f"tracejudge-session-{self._made}")
                session = self._open[session_id] = _Session(handle, False, 0.0)
            if session.busy:
                raise EngineError(
                    f"Code: 373. DB::Exception: Session {session_id} is locked by a concurrent client. "
                    "(SESSION_IS_LOCKED)",
                    code=373,
                )
            session.busy = True
        try:
            yield session.handle
        finally:
            with self._lock:
                session.busy = False
                session.expires_at = time.monotonic() + min(lifetime_s, 3600.0)

    def expire(self) -> None:
        """Closes what nobody has used for its lifetime; cheap enough to be called with every request."""
        with self._lock:
            self._expire()

    def close(self) -> None:
        """Closes every session; none may be in use."""
        with self._lock:
            for session in self._open.values():
                session.handle.close()
            self._open.clear()

    def _expire(self) -> None:
        now = time.monotonic()
        for session_id in [key for key, one in self._open.items() if not one.busy and one.expires_at < now]:
            self._open.pop(session_id).handle.close()

    def _make_room(self) -> None:
        while len(self._open) >= _MAX_SESSIONS:
            idle = [(one.expires_at, key) for key, one in self._open.items() if not one.busy]
            if not idle:
                raise EngineError(
                    "Code: 202. DB::Exception: Too many sessions in use. (TOO_MANY_SIMULTANEOUS_QUERIES)", code=202
                )
            self._open.pop(min(idle)[1]).handle.close()
