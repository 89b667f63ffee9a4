"""The outbox: bounds, account, flush."""

from __future__ import annotations

import queue
import sys
import threading

import pytest

from tracejudge.testing import make_trace
from tracejudge_sdk.outbox import Outbox, Pending


def _outbox(max_records: int = 3, max_bytes: int = 100, ring_at: int = 100) -> Outbox:
    return Outbox(max_records=max_records, max_bytes=max_bytes, ring_at=ring_at)


def _item(size_bytes: int = 10) -> Pending:
    return Pending(make_trace(), size_bytes)


def test_it_is_bounded_by_number() -> None:
    outbox = _outbox()
    for _ in range(5):
        outbox.put(_item())
    stats = outbox.stats()
    assert (stats.logged, stats.queued, dict(stats.dropped)) == (5, 3, {"queue_full": 2})


def test_it_is_bounded_by_bytes() -> None:
    outbox = _outbox(max_records=1000)
    for _ in range(3):
        outbox.put(_item(40))
    assert dict(outbox.stats().dropped) == {"queue_full": 1}
    outbox.put(_item(20))  # a smaller one still fits
    assert outbox.stats().queued_bytes == 100
    assert dict(outbox.stats().dropped) == {"queue_full": 1}


def test_what_is_on_its_way_counts_until_it_is_settled() -> None:
    outbox = _outbox()
    for _ in range(3):
        outbox.put(_item())
    taken = outbox.take(max_records=10, max_bytes=1000)
    assert len(taken) == 3
    outbox.put(_item())
    outbox.settle(taken[:1])
    outbox.settle(taken[1:], "invalid")
    outbox.put(_item())
    stats = outbox.stats()
    assert (stats.sent, dict(stats.dropped), stats.queued) == (1, {"queue_full": 1, "invalid": 2}, 1)


def test_one_larger_than_the_whole_outbox_is_too_large() -> None:
    outbox = _outbox()
    outbox.put(_item(101))
    assert dict(outbox.stats().dropped) == {"too_large": 1}


def test_a_batch_is_bounded_and_never_empty_while_something_waits() -> None:
    outbox = _outbox(max_records=10)
    for size in (10, 20, 30):
        outbox.put(_item(size))
    assert [item.size_bytes for item in outbox.take(max_records=2, max_bytes=100)] == [10, 20]
    assert [item.size_bytes for item in outbox.take(max_records=2, max_bytes=5)] == [30]
    assert outbox.take(max_records=2, max_bytes=5) == []


def test_a_flush_waits_for_what_was_there_and_not_for_what_comes_later() -> None:
    outbox = _outbox()
    outbox.put(_item())
    taken = outbox.take(max_records=1, max_bytes=100)
    assert not outbox.flush(0.0)
    assert outbox.urgent
    outbox.put(_item())
    outbox.settle(taken)
    assert not outbox.flush(0.0), "the later one is now there too"
    outbox.settle(outbox.take(max_records=9, max_bytes=100))
    assert outbox.flush(0.0)
    assert not outbox.urgent


def test_a_flush_of_nothing_is_done() -> None:
    assert _outbox().flush(0.0)


def test_a_waiting_flush_ends_when_another_thread_settles() -> None:
    outbox = _outbox()
    outbox.put(_item())
    settler = threading.Thread(target=lambda: outbox.settle(outbox.take(max_records=1, max_bytes=10)))
    settler.start()
    assert outbox.flush(30.0)
    settler.join()


def test_abandoning_counts_what_was_left_once() -> None:
    outbox = _outbox()
    for _ in range(3):
        outbox.put(_item())
    on_their_way = outbox.take(max_records=1, max_bytes=100)
    assert outbox.abandon() == 3
    outbox.settle(on_their_way)  # confirmed too late
    stats = outbox.stats()
    assert (stats.sent, dict(stats.dropped), stats.queued) == (0, {"unsent_at_close": 3}, 0)
    assert outbox.flush(0.0)


def test_refusing_names_its_reason() -> None:
    outbox = _outbox()
    outbox.refuse("closed")
    outbox.put(_item())
    assert dict(outbox.stats().dropped) == {"closed": 1}


def test_sleep_returns_at_once_when_something_waits() -> None:
    outbox = _outbox()
    outbox.put(_item())
    sleeper = threading.Thread(target=outbox.sleep, args=(600.0,), daemon=True)
    sleeper.start()
    sleeper.join(30.0)
    assert not sleeper.is_alive()


def test_a_put_wakes_a_sleeper() -> None:
    outbox = _outbox()
    awake = threading.Event()

    def sleep() -> None:
        while not outbox.stats().queued:
            outbox.sleep(60.0)
        awake.set()

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    if outbox.put(_item()):
        outbox.ring()
    assert awake.wait(30)
    sleeper.join()


def test_a_full_batch_ends_the_waiting_for_more() -> None:
    outbox = _outbox(ring_at=2)
    done = threading.Event()

    def wait() -> None:
        outbox.wait(600.0)
        done.set()

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    # Again and again, since the thread may not have begun to wait at the first full batch.
    for _ in range(3000):
        if outbox.put(_item()):
            outbox.ring()
        if done.wait(0.01):
            break
    assert done.is_set()
    waiter.join()


def test_the_thread_is_asked_for_once() -> None:
    outbox = _outbox(max_records=100, ring_at=3)
    assert outbox.put(_item()), "nobody looks yet"
    assert not outbox.put(_item()), "it was asked for"
    outbox.wait(0.0)
    assert outbox.put(_item()), "a full batch waits"
    assert not outbox.put(_item())
    outbox.unattended()
    assert outbox.put(_item())


def test_what_waits_does_not_shorten_a_pause_between_two_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that is down would be asked again with every trace."""
    outbox = _outbox(max_records=100, ring_at=2)
    outbox.wait(0.0)
    asked: list[bool] = []

    class Bell(queue.SimpleQueue[None]):
        def get(self, block: bool = True, timeout: float | None = None) -> None:
            asked.extend(outbox.put(_item()) for _ in range(5))
            raise queue.Empty

    monkeypatch.setattr(outbox, "_bell", Bell())
    outbox.pause(60.0)
    assert asked == [False] * 5


def test_many_threads_lose_no_count() -> None:
    outbox = _outbox(max_records=100, max_bytes=10**9)

    def put() -> None:
        for _ in range(500):
            outbox.put(_item())

    threads = [threading.Thread(target=put) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = outbox.stats()
    assert stats.logged == 2000 == stats.queued + stats.dropped_total
    assert stats.queued == 100


def test_the_account_handed_out_cannot_be_changed() -> None:
    stats = _outbox().stats()
    with pytest.raises(TypeError):
        stats.dropped["queue_full"] = 1  # type: ignore[index]


def test_in_a_hurry_every_trace_wakes_the_thread() -> None:
    outbox = _outbox(max_records=100, ring_at=50)
    outbox.wait(0.0)
    assert not outbox.put(_item())
    outbox.hurry()
    assert outbox.put(_item())
    outbox.wait(60.0)  # at once: something waits
    assert outbox.put(_item())


def test_a_look_is_of_one_moment_whatever_a_signal_handler_logs_meanwhile() -> None:
    outbox = _outbox()

    def handler(_frame: object, event: str, _arg: object) -> None:
        if event in ("call", "c_call"):  # where the interpreter lets handlers in
            outbox.lost("queue_full")
            outbox.sampled_out()

    sys.setprofile(handler)
    try:
        stats = outbox.stats()
    finally:
        sys.setprofile(None)
    assert stats.logged > 0
    assert stats.logged == stats.sampled_out + stats.dropped_total
