"""The law of the outbox: every trace is in exactly one place, and the bounds hold, whatever happens in which order."""

from __future__ import annotations

from collections import deque

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tracejudge.testing import make_trace
from tracejudge_sdk.outbox import Outbox, Pending, Waiting

RECORD = make_trace()


class OutboxMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox(max_records=6, max_bytes=60, ring_at=3)
        self.waiting: deque[int] = deque()
        self.on_their_way: list[Waiting] = []
        self.sent = self.dropped = self.logged = self.spooled = 0
        self.refusing = self.abandoned = False

    @rule(size=st.integers(1, 70))
    def put(self, size: int) -> None:
        held = [*self.waiting, *(item.size_bytes for item in self.on_their_way)]
        fits = not self.refusing and not self.abandoned and len(held) < 6 and sum(held) + size <= 60
        if self.abandoned and not self.refusing:
            return  # close() refuses before it abandons
        before = self.outbox.stats().dropped_total
        self.outbox.put(Pending(RECORD, size))
        assert (self.outbox.stats().dropped_total == before) == fits
        self.logged += 1
        if fits:
            self.waiting.append(size)
        else:
            self.dropped += 1

    @rule(most=st.integers(1, 4), max_bytes=st.integers(1, 60))
    def take(self, most: int, max_bytes: int) -> None:
        expected: list[int] = []
        while self.waiting and len(expected) < most:
            if expected and sum(expected) + self.waiting[0] > max_bytes:
                break
            expected.append(self.waiting.popleft())
        taken = self.outbox.take(max_records=most, max_bytes=max_bytes)
        assert [item.size_bytes for item in taken] == expected
        self.on_their_way += taken

    @rule(count=st.integers(0, 4), arrived=st.booleans())
    def settle(self, count: int, arrived: bool) -> None:
        done, self.on_their_way = self.on_their_way[:count], self.on_their_way[count:]
        self.outbox.settle(done, None if arrived else "transport_rejected")
        if not self.abandoned:
            self.sent += len(done) if arrived else 0
            self.dropped += 0 if arrived else len(done)

    @rule(count=st.integers(0, 4))
    def spool(self, count: int) -> None:
        done, self.on_their_way = self.on_their_way[:count], self.on_their_way[count:]
        self.outbox.spool(done)
        if not self.abandoned:
            self.spooled += len(done)

    @rule(count=st.integers(0, 4), arrived=st.booleans())
    def unspool(self, count: int, arrived: bool) -> None:
        count = min(count, self.spooled)
        self.outbox.unspool(count, None if arrived else "transport_rejected")
        self.spooled -= count
        self.sent += count if arrived else 0
        self.dropped += 0 if arrived else count

    @rule()
    def sampled_out(self) -> None:
        self.outbox.sampled_out()
        self.logged += 1

    @rule()
    def close(self) -> None:
        self.outbox.refuse("closed")
        self.refusing = True
        if not self.abandoned:
            self.dropped += self.outbox.abandon()
            self.abandoned = True
            self.waiting.clear()

    @invariant()
    def every_trace_is_in_one_place(self) -> None:
        stats = self.outbox.stats()
        places = stats.sampled_out + stats.sent + stats.queued + stats.spooled + stats.dropped_total
        assert stats.logged == places == self.logged
        assert stats.spooled == self.spooled
        assert (stats.sent, stats.dropped_total) == (self.sent, self.dropped)
        if not self.abandoned:
            assert stats.queued == len(self.waiting) + len(self.on_their_way) <= 6
            assert stats.queued_bytes <= 60
        assert self.outbox.flush(0.0) == (stats.queued == 0 and stats.spooled == 0)
        if not stats.queued:
            assert self.outbox.flush(60.0, give_up=lambda: True) == (stats.spooled == 0)


TestOutboxMachine = OutboxMachine.TestCase
