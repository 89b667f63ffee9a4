"""The store's time, carried on by a machine whose own clock may be wrong, be set, or sleep."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from tracejudge.errors import StoreUnavailable
from tracejudge.store.store_clock import StoreClock

START = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)


class Machine:
    """A machine's clock that can be set, beside the true time."""

    def __init__(self) -> None:
        self.true_s = 0.0
        self.set_by = timedelta(0)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.true_s) + self.set_by

    def monotonic(self) -> float:
        return self.true_s

    @property
    def true(self) -> datetime:
        return START + timedelta(seconds=self.true_s)


class Asked:
    """The store's answers; keeps what is asked in the background until it is let through."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.times = 0
        self.away = False
        self.ahead = timedelta(0)
        self.waiting: list[Callable[[], None]] = []

    def now(self) -> datetime:
        self.times += 1
        if self.away:
            raise StoreUnavailable("away")
        return self.machine.true + self.ahead

    def let_through(self) -> None:
        waiting, self.waiting = self.waiting, []
        for ask in waiting:
            ask()


def make() -> tuple[StoreClock, Machine, Asked]:
    machine = Machine()
    machine.set_by = timedelta(hours=-1)
    asked = Asked(machine)
    return StoreClock(asked.now, machine=machine, in_background=lambda ask: asked.waiting.append(ask)), machine, asked


def test_a_machine_that_is_an_hour_behind_gives_the_time_of_the_store() -> None:
    clock, machine, asked = make()
    assert clock.now() == machine.true
    machine.true_s += 30
    assert clock.now() == machine.true
    assert asked.times == 1, "within a minute the store is asked once"


def test_after_a_minute_the_store_is_asked_again_without_waiting_for_it() -> None:
    clock, machine, asked = make()
    clock.now()
    machine.true_s += 61
    assert clock.now() == clock.now() == machine.true
    assert len(asked.waiting) == 1, "asked once at a time"
    asked.let_through()
    assert asked.times == 2


def test_a_clock_that_is_set_changes_nothing_and_the_store_is_asked_at_once() -> None:
    clock, machine, asked = make()
    machine.true_s += 10
    machine.set_by = timedelta(days=1)
    assert clock.now() == machine.true
    asked.let_through()
    assert asked.times == 2
    assert clock.now() == machine.true
    assert not asked.waiting


def test_after_a_sleep_that_the_machine_did_not_count_the_store_sets_it_right() -> None:
    clock, machine, asked = make()
    machine.true_s += 10
    slept = timedelta(hours=3)
    machine.set_by += slept  # the wall clock went on, the monotonic one stood still
    asked.ahead = slept
    clock.now()
    asked.let_through()
    assert clock.now() == machine.true + slept


def test_while_the_store_is_away_time_goes_on_and_it_is_asked_every_few_seconds() -> None:
    clock, machine, asked = make()
    clock.now()
    machine.true_s += 61
    asked.away = True
    clock.now()
    asked.let_through()
    assert clock.now() == machine.true
    assert not asked.waiting
    machine.true_s += 6
    asked.away = False
    assert clock.now() == machine.true
    asked.let_through()
    assert asked.times == 3
