"""The consumers and the store of a chaos run as processes: started, killed, paused and started again."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.chaos.stream import FAITHFUL, LEXICAL, LEXICAL_RATE
from tests.support.kafka.process import GuardedProcess
from tests.support.store_process import StoreProcess
from tracejudge.store.embedded import Endpoint
from tracejudge.store.embedded.ownership import published

_UNAVAILABLE = 75
_PATIENCE_S = 90.0

_SETTINGS = """\
queue = "kafka://{bootstrap}/{topic}"
store = "{store}"
log_level = "INFO"
[queue_options]
session_timeout_ms = 6000
heartbeat_interval_ms = 500
reconnect_backoff_max_ms = 500
[consumer]
group = "{group}"
batch_records = 20
batch_wait_s = 0.1
max_in_flight_records = 200
commit_interval_s = 0.2
max_dead_share = 0.5
judge_patience_s = inf
[[judges]]
name = "{faithful}"
kind = "faithfulness"
base_url = "{judge}"
model = "judge"
api_key_env = "CHAOS_LIFE"
timeout_s = 3.0
max_attempts = 3
concurrency = 48
max_calls_per_h = 100000000
[[judges]]
name = "{lexical}"
kind = "lexical"
[sampling]
rate = 1.0
judges = {{ {lexical} = {rate} }}
"""


class StoreOwner:
    """The embedded store in a process of its own, which can be killed and comes back on the same directory."""

    def __init__(self, folder: Path) -> None:
        self._directory = folder / "store"
        self._process: StoreProcess | None = None

    def start(self) -> None:
        self._process = StoreProcess(f"chdb:///{self._directory}")
        assert self._process.hear() == "open"

    def migrate(self) -> None:
        assert self._process is not None
        self._process.ask("migrate")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process = None

    def endpoint(self) -> Endpoint | None:
        """Who serves the directory; None while nobody does."""
        return published(self._directory) if self._process is not None else None

    def close(self) -> None:
        if self._process is not None:
            self.kill()


@dataclass(kw_only=True)
class Life:
    """One process of a consumer. `key` is the API key by which the judge tells it from the others."""

    key: str
    process: GuardedProcess
    journal: Path
    log: Path
    ended: bool = False


@dataclass(kw_only=True)
class Fleet:
    """As many consumers as there are places; one that dies because a service was away is started again."""

    folder: Path
    places: int
    planted: bool = False
    lives: list[Life] = field(default_factory=list)
    seats: dict[int, Life] = field(default_factory=dict)
    restarts: int = 0
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def configure(self, *, bootstrap: str, topic: str, group: str, store: str, judge: str) -> None:
        values = {"faithful": FAITHFUL, "lexical": LEXICAL, "rate": LEXICAL_RATE}
        text = _SETTINGS.format(bootstrap=bootstrap, topic=topic, group=group, store=store, judge=judge, **values)
        (self.folder / "tracejudge.toml").write_text(text, encoding="utf-8")

    def start(self, seat: int) -> Life:
        number = next(self._numbers)
        log = self.folder / f"consumer{seat}-{number}.log"
        journal = self.folder / f"journal{seat}-{number}.jsonl"
        options = ["--commit-before-store"] if self.planted else []
        settings = str(self.folder / "tracejudge.toml")
        command = [sys.executable, "-W", "ignore", "-m", "tests.support.chaos.consumer", settings, str(journal)]
        key = f"life-{number}"
        with _environment(CHAOS_LIFE=key):
            life = Life(key=key, process=GuardedProcess([*command, *options], log), journal=journal, log=log)
        self.lives.append(life)
        self.seats[seat] = life
        return life

    def start_all(self) -> None:
        for seat in range(self.places):
            self.start(seat)

    def kill(self, seat: int) -> Life:
        """kill -9; gives the life that ended."""
        life = self.seats[seat]
        life.ended = True
        life.process.kill()
        return life

    def leave(self, seat: int) -> Life:
        """Ends it in order (SIGTERM): it drains, commits and leaves the group."""
        life = self.seats[seat]
        life.ended = True
        assert life.process.stop(_PATIENCE_S), f"{life.log.name}: did not end within {_PATIENCE_S:g} s of SIGTERM"
        return life

    def stop_all(self) -> None:
        for seat in self.seats:
            if not self.seats[seat].ended:
                self.leave(seat)

    def kill_all(self) -> None:
        for life in self.seats.values():
            life.process.kill()

    def supervise(self) -> None:
        """Starts again whoever ended because a service was away. Raises for any other end."""
        for seat, life in list(self.seats.items()):
            status = life.process.exit_status
            if status is None or life.ended:
                continue
            life.ended = True
            if status != _UNAVAILABLE:
                raise AssertionError(f"{life.log.name} ended with status {status}:\n{_tail(life.log)}")
            self.restarts += 1
            self.start(seat)

    def in_flight_when_lost(self) -> Counter[str]:
        """What the consumers wrote down: records in flight on revoked and on lost partitions."""
        found: Counter[str] = Counter()
        for life in self.lives:
            if life.journal.exists():
                for line in life.journal.read_text(encoding="utf-8").splitlines():
                    event = json.loads(line)
                    found[event["event"]] += event["n"]
                    found[f"{event['event']} times"] += bool(event["partitions"])
        return found


def wait_until(
    left: Callable[[], int], *, patience_s: float, what: str, meanwhile: Callable[[], None], every_s: float = 0.3
) -> None:
    """Looks until nothing is left. Raises AssertionError when it has not become less for the patience."""
    least, since = left(), time.monotonic()
    while least:
        meanwhile()
        time.sleep(every_s)
        now = left()
        if now < least:
            least, since = now, time.monotonic()
        assert time.monotonic() - since < patience_s, f"{what}: {least} left, as {patience_s:g} s before"


def copy_logs(folder: Path, target: Path) -> None:
    """Keeps the logs of a failed run."""
    target.mkdir(parents=True, exist_ok=True)
    for path in [*folder.glob("*.log"), *folder.glob("*.jsonl"), *folder.glob("*.toml")]:
        shutil.copy(path, target)


def _tail(log: Path, lines: int = 30) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value
