"""Runs operations on a store and on the oracle, asks the readers, and cuts a failing run down."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tests.support.store_fixture import empty
from tests.support.store_model.operations import ADOPTED_AT, JUDGED, START, Operation
from tests.support.store_model.oracle import Oracle
from tests.support.store_model.readers import READERS
from tracejudge.scores import JudgeId, TraceKey
from tracejudge.store import Adoption, Store, StoredFeedback, StoredTrace
from tracejudge.store.tombstones import Identity

ALL_READERS_EVERY = 500
ONE_READER_EVERY = 4


class World(Protocol):
    """A store that can be closed and opened, and whose engine can be killed under it."""

    @property
    def store(self) -> Store: ...
    def reopen(self) -> None: ...
    def let_another_own(self) -> None: ...
    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Disagreement:
    """After so many operations this reader said something else than the oracle."""

    step: int
    reader: str
    said: str

    def __str__(self) -> str:
        return f"after {self.step} operations reader {self.reader!r} disagrees: {self.said}"


def run(world: World, operations: Sequence[Operation], *, seed: int = 0) -> Disagreement | None:
    """The first disagreement, or None. One reader after some operations, now and then all; all at the end."""
    begin(world.store)
    oracle, draw = Oracle(), random.Random(seed)
    delivered: list[tuple[str, Any]] = []
    names = list(READERS)
    for step, operation in enumerate(operations, start=1):
        try:
            _apply(world, oracle, operation, delivered)
        except AssertionError as error:
            return Disagreement(step, operation.kind, str(error))
        everything = step % ALL_READERS_EVERY == 0 or step == len(operations)
        one = [draw.choice(names)] if step % ONE_READER_EVERY == 0 else []
        for name in names if everything else one:
            try:
                READERS[name](world.store, oracle, draw)
            except AssertionError as error:
                return Disagreement(step, name, str(error))
    return None


def shrink(
    world: World, operations: Sequence[Operation], *, tries: int = 60
) -> tuple[Sequence[Operation], Disagreement]:
    """A shorter run that still disagrees: halves, quarters ... are left out while the rest goes on failing."""
    best = list(operations)
    failure = run(world, best)
    if failure is None:
        raise ValueError("these operations do not disagree when they are run again")
    best, size = best[: failure.step], max(1, failure.step // 2)
    while tries and size:
        start, shorter = 0, False
        while start < len(best) and tries:
            tries -= 1
            candidate = best[:start] + best[start + size :]
            found = run(world, candidate) if candidate else None
            if found is None:
                start += size
            else:
                best, failure, shorter = candidate[: found.step], found, True
        size = size if shorter and size > 1 else size // 2
    return best, failure


def begin(store: Store) -> None:
    """An empty store with two JudgeIds behind one name."""
    empty(store)
    for judge_id, live_from in (("lexical@1", START), ("lexical@2", ADOPTED_AT)):
        store.judges.adopt(Adoption(judge_name="lexical", judge_id=JudgeId(judge_id), live_from=live_from))


def _apply(world: World, oracle: Oracle, operation: Operation, delivered: list[tuple[str, Any]]) -> None:
    store, kind, detail = world.store, operation.kind, operation.detail
    if kind in _ADDERS:
        delivered += [(kind, value) for value in operation.values]
        _deliver(store, oracle, kind, operation.values)
    elif kind == "bad_scores":
        _deliver_bad(store, oracle, operation)
    elif kind == "redeliver" and delivered:
        place, length, size = detail
        start = int(place * len(delivered))
        stretch = delivered[start : start + length]
        for first in range(0, len(stretch), size):
            for table in _ADDERS:
                values = [value for name, value in stretch[first : first + size] if name == table]
                _deliver(store, oracle, table, values)
    elif kind in ("lost_answer", "kill_while_inserting"):
        delivered += [("scores", value) for value in operation.values]
        if kind == "kill_while_inserting":
            world.let_another_own()
            store = world.store
        around = _losing_the_answer if kind == "lost_answer" else world_killed(world)
        around(store, lambda: _deliver(store, oracle, "scores", operation.values))
    elif kind == "forget":
        store.forgetting.forget(*detail, at=JUDGED)
        oracle.forget(*detail)
    elif kind == "sweep":
        found = store.forgetting.sweep(at=JUDGED)
        assert found.total == 0, f"something was left to be swept: {found}"
    elif kind == "merge":
        store.optimize(detail)
    elif kind == "rollup":
        store.minutes.rollup()
    elif kind == "reopen":
        world.reopen()
    elif kind == "kill":
        world.kill()


_ADDERS: dict[str, Callable[[Oracle, Sequence[Any]], None]] = {
    "traces": Oracle.add_traces,
    "scores": Oracle.add_scores,
    "ledger": Oracle.add_decisions,
    "labels": Oracle.add_labels,
    "feedback": Oracle.add_feedback,
    "calls": Oracle.add_calls,
}


def _deliver(store: Store, oracle: Oracle, table: str, values: Sequence[Any]) -> None:
    """As the consumer does: what was forgotten does not come in again."""
    wanted = _not_forgotten(store, oracle, values)
    if wanted:
        inserted = getattr(store, table).insert(wanted)
        assert inserted.stored == len(wanted), inserted
        _ADDERS[table](oracle, wanted)


def _not_forgotten(store: Store, oracle: Oracle, values: Sequence[Any]) -> list[Any]:
    identities = [_identity(value) for value in values]
    expected = {one.key for one in identities if oracle.is_forgotten(one.key, one.user_id)}
    if expected or len(values) > 4:  # a question for each batch would take as long as its insert
        told = store.tombstones.forgotten(identities)
        assert told == expected, f"tombstones: {told} instead of {expected}"
    return [value for value, identity in zip(values, identities, strict=True) if identity.key not in expected]


def _identity(value: Any) -> Identity:
    inner = value.trace if isinstance(value, StoredTrace) else value
    inner = value.feedback if isinstance(value, StoredFeedback) else inner
    key = TraceKey(inner.environment, inner.app, inner.trace_id)
    return Identity(key, getattr(inner, "user_id", None))


def _deliver_bad(store: Store, oracle: Oracle, operation: Operation) -> None:
    """One cell that no column takes: its row is refused, with a reason, and the others are stored."""
    wanted = _not_forgotten(store, oracle, operation.values)
    if not wanted:
        return
    bad: dict[str, Any] = [{"score": "N/A"}, {"feedback": None}, {"inclusion_probability": float("nan")}][
        operation.detail
    ]
    spoilt = replace(wanted[0], **bad)
    if spoilt.outcome.value == "invalid" and operation.detail == 0:
        spoilt = replace(spoilt, feedback=None)  # of an invalid score no number is looked at
    inserted = store.scores.insert([spoilt, *wanted[1:]])
    assert (inserted.stored, len(inserted.rejected)) == (len(wanted) - 1, 1)
    oracle.add_scores(wanted[1:])
    oracle.refused.append(spoilt)


def _losing_the_answer(store: Store, insert: Callable[[], None]) -> None:
    """The rows go in and the answer does not come back: the driver is told that the connection broke."""
    from clickhouse_connect.driver.exceptions import OperationalError

    client: Any = store._connection.run(lambda client: client)  # this thread's, until the connection breaks
    real = client.insert
    lost: list[str] = []

    def insert_and_break(table: str, *args: Any, **options: Any) -> Any:
        done = real(table, *args, **options)
        if table == "scores" and not lost:
            lost.append(table)
            raise OperationalError("connection reset after the rows were stored")
        return done

    client.insert = insert_and_break
    try:
        insert()
    finally:
        client.insert = real


def world_killed(world: World) -> Callable[[Store, Callable[[], None]], None]:
    """Kills the engine's owner while an insert is on its way."""

    def around(store: Store, insert: Callable[[], None]) -> None:
        failures: list[BaseException] = []

        def work() -> None:
            try:
                insert()
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        world.kill()
        thread.join()
        if failures:
            raise failures[0]

    return around
