"""Trace ids: UUIDv7, unique over threads and forks."""

from __future__ import annotations

import os
import threading
import uuid

import pytest

from tracejudge_sdk import ids, new_trace_id


def test_an_id_is_a_uuid_of_version_7_that_holds_its_time() -> None:
    for time_ms in (0, 1_750_000_000_123, 2**48 - 1):
        found = uuid.UUID(new_trace_id(time_ms))
        assert found.version == 7
        assert found.variant == uuid.RFC_4122
        assert found.int >> 80 == time_ms


def test_ids_sort_by_their_time() -> None:
    made = [new_trace_id(time_ms) for time_ms in range(1_750_000_000_000, 1_750_000_000_000 + 1000, 7)]
    assert made == sorted(made)


def test_ids_of_many_threads_are_all_different() -> None:
    found: list[list[str]] = [[] for _ in range(4)]

    def make(into: list[str]) -> None:
        into.extend(new_trace_id(1) for _ in range(2000))

    threads = [threading.Thread(target=make, args=(into,)) for into in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for into in found for one in into}) == 8000


def test_every_random_bit_is_used() -> None:
    seen = 0
    for _ in range(200):
        seen |= uuid.UUID(new_trace_id(0)).int ^ uuid.UUID(new_trace_id(0)).int
    assert seen == (0xFFF << 64) | (2**62 - 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    ids.stock_up(64)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, "\n".join(new_trace_id(1) for _ in range(64)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        theirs = set(pipe.read().split("\n"))
    assert len(theirs) == 64
    assert theirs.isdisjoint(new_trace_id(1) for _ in range(64))
