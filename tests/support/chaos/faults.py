"""The faults that are injected from outside, each a step of the schedule that ends with everything running again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from tests.support.chaos.fleet import Fleet, StoreOwner
from tests.support.chaos.proxy import StoreProxy
from tests.support.kafka_broker import KafkaBroker

FaultName = Literal[
    "consumer killed",  # kill -9, and another one started in its place
    "consumer paused",  # SIGSTOP beyond the session timeout: its partitions go to others, and it wakes up
    "consumer leaves and joins",  # SIGTERM, then a new member: two rebalances
    "broker killed",  # kill -9 and restart on the same data
    "broker restarted",  # in order
    "store killed",  # kill -9 of the owner, then another owner on the same directory
    "insert cut before",  # the connection breaks before inserts are passed on
    "insert cut after",  # ... after they took effect
]
FAULTS: Final[tuple[FaultName, ...]] = get_args(FaultName)

_PAUSE_S: Final = 7.5
"""Above the group's session timeout of 6 s, which no broker lets one set lower."""
_STORE_AWAY_S: Final = 1.0
_CUTS: Final = 3  # inserts of one fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One fault: which, on whom, and how far into its slice of the stream (a share)."""

    fault: FaultName
    seat: int
    after: float


def schedule(seed: int, *, each: int, places: int, faults: Sequence[FaultName] = FAULTS) -> list[Step]:
    """Every fault `each` times, in an order that follows from the seed."""
    rng = random.Random(f"schedule/{seed}")
    names = [name for name in faults for _ in range(each)]
    rng.shuffle(names)
    return [Step(fault=name, seat=rng.randrange(places), after=rng.uniform(0.05, 0.6)) for name in names]


@dataclass(frozen=True, kw_only=True)
class Hands:
    """What the faults take hold of. `caught` is told a life's key when what it has in flight is to be counted."""

    fleet: Fleet
    broker: KafkaBroker
    store: StoreOwner
    proxy: StoreProxy
    caught: Callable[[str], None]

    def inject(self, fault: FaultName, seat: int) -> None:
        """The fault, from its beginning until everything has been started again."""
        self._of()[fault](seat)

    def _of(self) -> Mapping[FaultName, Callable[[int], None]]:
        return {
            "consumer killed": self._kill,
            "consumer paused": self._pause,
            "consumer leaves and joins": self._leave,
            "broker killed": lambda _: self.broker.restart(kill=True),
            "broker restarted": lambda _: self.broker.restart(),
            "store killed": self._kill_store,
            "insert cut before": lambda _: self.proxy.break_inserts("before", _CUTS),
            "insert cut after": lambda _: self.proxy.break_inserts("after", _CUTS),
        }

    def _kill(self, seat: int) -> None:
        self.caught(self.fleet.kill(seat).key)
        self.fleet.start(seat)

    def _pause(self, seat: int) -> None:
        life = self.fleet.seats[seat]
        life.process.pause()
        self.caught(life.key)
        time.sleep(_PAUSE_S)
        life.process.resume()

    def _leave(self, seat: int) -> None:
        self.fleet.leave(seat)
        self.fleet.start(seat)

    def _kill_store(self, _: int) -> None:
        self.store.kill()
        time.sleep(_STORE_AWAY_S)
        self.store.start()
