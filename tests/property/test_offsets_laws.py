"""Laws of the offsets: a commit never skips unfinished work, and reaches as far as it may."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tracejudge_consumer.intake import PartitionKey
from tracejudge_consumer.offsets import OffsetBook, OffsetTracker

A, B = PartitionKey("kafka:t", 0), PartitionKey("kafka:t", 1)


class BruteForce:
    """The tracker as one would define it: remembers everything, looks through all of it each time."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.finished: set[int] = set()
        self.position = -1

    def committable(self) -> int | None:
        for offset in self.started:
            if offset not in self.finished:
                return offset
        ends = [self.position, *(offset + 1 for offset in self.started)]
        return max(ends) if max(ends) >= 0 else None

    def gap(self) -> int:
        first = next((i for i, offset in enumerate(self.started) if offset not in self.finished), len(self.started))
        return len(self.started) - first


@given(
    holes=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    first=st.integers(0, 10),
    choices=st.data(),
)
def test_the_tracker_agrees_with_brute_force(holes: list[int], first: int, choices: st.DataObject) -> None:
    """Any order of starting, finishing and advancing, with holes between the offsets."""
    tracker, oracle = OffsetTracker(A), BruteForce()
    to_start, offset = [], first
    for hole in holes:
        to_start.append(offset)
        offset += 1 + hole
    seen = -1
    while to_start or oracle.finished != set(oracle.started):
        open_offsets = [one for one in oracle.started if one not in oracle.finished]
        possible: list[str] = ["start"] * bool(to_start) + ["finish"] * bool(open_offsets) + ["advance"]
        step = choices.draw(st.sampled_from(possible))
        if step == "start":
            one = to_start.pop(0)
            tracker.start(one)
            oracle.started.append(one)
        elif step == "finish":
            one = choices.draw(st.sampled_from(open_offsets))
            tracker.finish(one)
            oracle.finished.add(one)
        else:
            # The queue's position never lies beyond what it still has to hand out.
            highest = to_start[0] if to_start else offset
            position = choices.draw(st.integers(0, highest))
            tracker.advance(position)
            oracle.position = max(oracle.position, position)
        assert tracker.committable() == oracle.committable()
        assert tracker.gap == oracle.gap()
        assert tracker.unfinished == len(oracle.started) - len(oracle.finished)
        committable = tracker.committable()
        if committable is not None:
            assert committable >= seen, "a commit never goes back"
            assert all(one in oracle.finished for one in oracle.started if one < committable)
            seen = committable
    assert tracker.gap == 0


@given(st.permutations(range(12)), st.sets(st.integers(0, 11)))
def test_the_book_says_each_commit_once_and_nothing_of_forgotten_partitions(
    order: list[int], commit_after: set[int]
) -> None:
    book = OffsetBook(max_gap=100)
    trackers = {key: book.start(key, 0) for key in (A, B)}
    for offset in range(1, 12):
        for key in (A, B):
            assert book.start(key, offset) is trackers[key]
    assert book.committable() == {}, "nothing is finished, so there is nothing new to say"
    finished: set[int] = set()
    for step, offset in enumerate(order):
        book.finish(trackers[A], [offset])
        book.finish(trackers[B], [offset])
        finished.add(offset)
        prefix = next((i for i in range(12) if i not in finished), 12)
        if step in commit_after:
            offsets = book.committable()
            assert set(offsets.values()) <= {prefix}
            book.committed(offsets)
            assert book.committable() == {}
    book.forget([A])
    assert A not in book.committable()
    assert trackers[A].forgotten
    assert not trackers[B].forgotten


def raises_value_error(call: Callable[[], object]) -> bool:
    try:
        call()
    except ValueError:
        return True
    return False


def test_a_tracker_refuses_what_cannot_be() -> None:
    tracker = OffsetTracker(A)
    tracker.start(5)
    assert raises_value_error(lambda: tracker.start(5))
    assert raises_value_error(lambda: tracker.start(4))
    assert raises_value_error(lambda: tracker.finish(6))
    tracker.finish(5)
    assert raises_value_error(lambda: tracker.finish(5))


def test_work_of_a_former_assignment_finishes_nothing_in_the_new_one() -> None:
    book = OffsetBook(max_gap=10)
    before = book.start(A, 7)
    book.forget([A])
    after = book.start(A, 7)
    book.finish(before, [7])
    assert book.committable() == {}
    assert book.unfinished == 1
    book.finish(after, [7])
    assert book.committable() == {A: 8}


def test_a_partition_that_begins_anew_gets_a_new_tracker() -> None:
    """A topic deleted and made again hands out low offsets: the old work must not count for the new records."""
    book = OffsetBook(max_gap=10)
    before = book.start(A, 100)
    after = book.start(A, 0)
    assert after is not before
    assert before.forgotten
    book.finish(before, [100])
    assert book.committable() == {}
    book.finish(after, [0])
    assert book.committable() == {A: 1}


def test_a_partition_is_full_at_the_gap_and_not_after_the_oldest_is_finished() -> None:
    book = OffsetBook(max_gap=3)
    tracker = book.start(A, 0)
    book.start(A, 1)
    assert book.full() == frozenset()
    book.start(A, 2)
    assert book.full() == {A}
    book.finish(tracker, [1, 2])
    assert book.full() == {A}, "the oldest one holds everything back"
    book.finish(tracker, [0])
    assert book.full() == frozenset()


def test_the_end_moves_over_a_hole_that_no_record_follows() -> None:
    """Transaction markers take offsets too: without this a partition that was read to its end keeps a lag of one."""
    book = OffsetBook(max_gap=3)
    tracker = book.start(A, 0)
    book.advance({A: 2, B: 9})
    assert book.committable() == {}
    book.finish(tracker, [0])
    assert book.committable() == {A: 2}
