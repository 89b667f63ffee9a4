"""The outbox: the queue of items to be sent, bounded by number and bytes, and the account of everything logged.

    logged = sampled_out + sent + queued + spooled + sum of dropped            at every instant

The service's own threads call `put`: it holds a lock for a few assignments, never waits, and asks for the sending
thread only when that sleeps or a batch is full. A signal handler may interrupt `put` and call it again. So the lock is
re-entrant, the bell is a SimpleQueue, and each count is changed by one `+=` on an int that exists already: the
interpreter runs handlers at calls and jumps, of which that has none.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, get_args

from tracejudge_sdk.account import ClientStats, DropReason
from tracejudge_sdk.trace import Record

_SETTLE_POLL_S: Final = 0.05


class Waiting(Protocol):
    """An item to be sent. It knows its own size, so that the service's thread creates one object instead of two."""

    @property
    def size_bytes(self) -> int: ...


class Pending(NamedTuple):
    """A record that is built already, with its approximate size in bytes."""

    record: Record
    size_bytes: int


class Outbox:
    """Bounded, for any number of threads that put and one that takes."""

    def __init__(self, *, max_records: int, max_bytes: int, ring_at: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._ring_at = ring_at
        self._lock = threading.RLock()
        self._acquire, self._release = self._lock.acquire, self._lock.release
        self._settled_something = threading.Condition(self._lock)
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._waiting: deque[Waiting] = deque()
        self._bytes = 0  # of items that wait or are being sent
        self._accepted = 0
        self._settled = 0
        self._flush_up_to = 0
        self._refusing: DropReason | None = None
        self._abandoned = False
        # `put` asks for the thread once so many items wait: 1 while the thread sleeps, infinity once it was asked for.
        self._call_from: float = 1
        self._not_accepted = self._sampled_out = self._sent = self._truncated = self._lossy = 0
        self._spooled = self._recovered = 0
        # Not a Counter: its first `+=` calls a method, and what a signal handler counted meanwhile would be forgotten.
        self._dropped: dict[str, int] = dict.fromkeys(get_args(DropReason), 0)
        self._notes: Counter[str] = Counter()
        self._last_error: str | None = None

    # -- the service's threads -------------------------------------------------------------------------------------

    def put(self, item: Waiting) -> bool:
        """Takes an item, or counts why not. True when the caller has to start the sending thread or wake it
        (`ring`)."""
        # Few steps and few names: this runs in the request's own time. Calling the lock's methods, known since the
        # beginning, is a quarter quicker than `with`, which looks them up.
        self._acquire()
        try:
            size = item.size_bytes
            if self._bytes + size > self._max_bytes or self._accepted - self._settled >= self._max_records:
                self._refuse(size)
                return False
            self._bytes += size
            self._accepted += 1
            waiting = self._waiting
            waiting.append(item)
            if len(waiting) < self._call_from:
                return False
            self._call_from = math.inf
            return True
        finally:
            self._release()

    def ring(self) -> None:
        """Wakes the sending thread."""
        self._bell.put(None)

    def hurry(self) -> None:
        """From now on every `put` wakes the sending thread: the process is about to end, and may do so at once."""
        with self._lock:
            self._ring_at = self._call_from = 1

    def unattended(self) -> None:
        """Notes that no thread takes from the outbox: the next `put` asks for one."""
        with self._lock:
            self._call_from = 1

    def sampled_out(self) -> None:
        """Counts a trace that head sampling left out."""
        with self._lock:
            self._not_accepted += 1
            self._sampled_out += 1

    def lost(self, reason: DropReason) -> None:
        """Counts a record as dropped that did not get as far as `put`."""
        with self._lock:
            self._not_accepted += 1
            self._dropped[reason] += 1

    def flush(self, timeout_s: float, *, give_up: Callable[[], bool] = lambda: False) -> bool:
        """Waits until all items taken so far are sent or dropped; False when `timeout_s` seconds were not enough.

        What is on disk is not sent yet. When all of it is there, and `give_up()` says so, it waits no longer.
        """
        deadline = time.monotonic() + timeout_s
        with self._lock:
            target = self._accepted
            self._flush_up_to = max(self._flush_up_to, target)
            self._bell.put(None)
            while self._settled - self._spooled < target:
                left = deadline - time.monotonic()
                if left <= 0 or (self._settled >= target and give_up()):
                    return False
                self._settled_something.wait(min(left, _SETTLE_POLL_S))
            return True

    def refuse(self, reason: DropReason) -> None:
        """From now on everything put is dropped for `reason`."""
        with self._lock:
            self._refusing = reason
            self._max_records = 0
            self._bell.put(None)

    def abandon(self) -> int:
        """Drops the items that are not settled as unsent_at_close; returns their number."""
        with self._lock:
            left = self._accepted - self._settled
            self._abandoned = True
            if left:
                self._dropped["unsent_at_close"] += left
            self._waiting.clear()
            self._settled += left
            self._bytes = 0
            self._settled_something.notify_all()
            self._bell.put(None)
            return left

    def leave(self) -> None:
        """For a forked child: what waits is the parent's, and nothing of it is sent here."""
        self._abandoned = True

    # -- the sending thread ----------------------------------------------------------------------------------------

    def take(self, *, max_records: int, max_bytes: int) -> list[Waiting]:
        """Removes the oldest items, at least one where there is one; they count as queued until they are settled or
        spooled."""
        taken: list[Waiting] = []
        size = 0
        with self._lock:
            while self._waiting and len(taken) < max_records:
                size += self._waiting[0].size_bytes
                if taken and size > max_bytes:
                    break
                taken.append(self._waiting.popleft())
        return taken

    def settle(self, items: Sequence[Waiting], reason: DropReason | None = None) -> None:
        """Counts the items as sent, or as dropped for `reason`."""
        if not items:
            return
        with self._lock:
            if self._abandoned:
                return  # counted already
            # Summed first: a collection that runs meanwhile may log, and `-=` has read the old value by then.
            size = sum(item.size_bytes for item in items)
            self._bytes -= size
            self._settled += len(items)
            if reason is None:
                self._sent += len(items)
            else:
                self._dropped[reason] += len(items)
            self._settled_something.notify_all()

    def lose_taken(self) -> None:
        """Counts what was taken and is neither settled nor spooled as internal_error: the thread that took it failed in
        a way nobody foresaw, and will not come back to it."""
        with self._lock:
            left = self._accepted - self._settled - len(self._waiting)
            if left and not self._abandoned:
                self._bytes = sum(item.size_bytes for item in self._waiting)
                self._settled += left
                self._dropped["internal_error"] += left
                self._settled_something.notify_all()

    def spool(self, items: Sequence[Waiting]) -> None:
        """Counts the items as spooled: they are on disk now."""
        with self._lock:
            if self._abandoned:
                return  # counted already; they will be sent all the same
            size = sum(item.size_bytes for item in items)  # first, as in `settle`
            self._bytes -= size
            self._settled += len(items)
            self._spooled += len(items)

    def unspool(self, count: int, reason: DropReason | None = None) -> None:
        """Counts so many spooled traces as sent, or as dropped for `reason`."""
        if count == 0:
            return
        with self._lock:
            self._spooled -= count
            if reason is None:
                self._sent += count
            else:
                self._dropped[reason] += count
            self._settled_something.notify_all()

    def recovered(self, count: int) -> None:
        """Counts traces that were sent for a process that had ended."""
        with self._lock:
            self._recovered += count

    def mark(self, *, truncated: int, lossy: int) -> None:
        """Counts records that were cut or coerced."""
        with self._lock:
            self._truncated += truncated
            self._lossy += lossy

    def note(self, name: str, count: int = 1) -> None:
        """Adds to a named count of a record step (`ClientStats.notes`)."""
        with self._lock:
            self._notes[name] += count

    def fail(self, error: str) -> None:
        """Keeps the message of the last failure."""
        with self._lock:
            self._last_error = error

    def wait(self, timeout_s: float) -> None:
        """Sleeps until the bell rings or `timeout_s` is over; at once while somebody waits for a flush."""
        with self._lock:
            if self._rings_now():
                timeout_s = 0.0
        self._hear(timeout_s)

    def sleep(self, timeout_s: float) -> None:
        """Sleeps like `wait`, but the next `put` wakes the thread. For a thread that has found nothing for a while."""
        with self._lock:
            if self._waiting or self._rings_now():
                return
            self._call_from = 1
        self._hear(timeout_s)

    def pause(self, timeout_s: float) -> None:
        """Sleeps between two attempts; a flush or a close ends it, waiting items do not."""
        with self._lock:
            self._call_from = math.inf
        self._hear(timeout_s)

    @property
    def urgent(self) -> bool:
        """Whether a flush or a full batch waits, so that the thread should not wait for more items."""
        with self._lock:
            return self._rings_now()

    @property
    def refusing(self) -> bool:
        return self._refusing is not None

    @property
    def abandoned(self) -> bool:
        return self._abandoned

    def stats(self) -> ClientStats:
        """The account as it is now."""
        with self._lock:
            # Looked at without a call in between, as it is kept: a signal handler that logs is in all of it or in none.
            dropped = {**self._dropped}
            logged, sampled_out = self._accepted + self._not_accepted, self._sampled_out
            sent, queued, spooled = self._sent, self._accepted - self._settled, self._spooled
            return ClientStats(
                logged=logged,
                sampled_out=sampled_out,
                sent=sent,
                queued=queued,
                queued_bytes=self._bytes,
                spooled=spooled,
                recovered=self._recovered,
                dropped=MappingProxyType({reason: count for reason, count in dropped.items() if count}),
                truncated=self._truncated,
                lossy=self._lossy,
                notes=MappingProxyType(dict(self._notes)),
                last_error=self._last_error,
            )

    def _refuse(self, size_bytes: int) -> None:
        self._not_accepted += 1
        if self._refusing is not None:
            self._dropped[self._refusing] += 1
        else:
            self._dropped["too_large" if size_bytes > self._max_bytes else "queue_full"] += 1

    def _rings_now(self) -> bool:
        return self._settled < self._flush_up_to or len(self._waiting) >= self._ring_at

    def _hear(self, timeout_s: float) -> None:
        try:
            if timeout_s > 0:
                self._bell.get(timeout=timeout_s)
            while True:
                self._bell.get_nowait()
        except queue.Empty:
            pass
        with self._lock:
            self._call_from = self._ring_at
