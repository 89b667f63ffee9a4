"""An embedded store whose owner is another process, to be killed; then this one takes over, and hands back."""

from __future__ import annotations

from pathlib import Path

from tests.support.store_process import StoreProcess
from tracejudge.store import Store, open_store


class EmbeddedWorld:
    """Close it. Every second kill, when this process is the owner itself, closes in peace and lets a new one start."""

    def __init__(self, directory: Path) -> None:
        self._url = f"chdb:///{directory}"
        self.kills = 0
        self._owner: StoreProcess | None = self._start()
        self.store: Store = open_store(self._url)
        self.store.migrate()

    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self._url)

    def kill(self) -> None:
        if self._owner is not None:
            self._owner.kill()
            self._owner = None
            self.kills += 1
            return
        self.let_another_own()

    def let_another_own(self) -> None:
        if self._owner is None:
            self.store.close()
            self._owner = self._start()
            self.store = open_store(self._url)

    def close(self) -> None:
        self.store.close()
        if self._owner is not None:
            self._owner.kill()

    def _start(self) -> StoreProcess:
        owner = StoreProcess(self._url)
        assert owner.hear() == "open"
        return owner
