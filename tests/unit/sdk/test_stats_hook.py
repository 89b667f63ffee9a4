"""The hook that receives the client's account."""

from __future__ import annotations

import threading

import pytest

from tracejudge_sdk import ClientStats, SendPolicy, TraceClient
from tracejudge_sdk.testing import MemoryTransport

QUICK = SendPolicy(linger_s=0.001, first_pause_s=0.001, longest_pause_s=0.002)


def test_the_hook_receives_the_account_again_and_again_and_at_the_end() -> None:
    heard: list[ClientStats] = []
    twice = threading.Event()

    def hook(stats: ClientStats) -> None:
        heard.append(stats)
        if len(heard) >= 2:
            twice.set()

    client = TraceClient(app="shop", transport=MemoryTransport(), policy=QUICK, on_stats=hook, stats_interval_s=0.001)
    client.log(query="q")
    assert twice.wait(30)
    client.log(query="q")
    assert client.close(30)
    assert heard[-1].sent == 2
    assert heard[-1] == client.stats()


def test_a_hook_that_fails_is_told_once_counted_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    calls = threading.Semaphore(0)

    def hook(stats: ClientStats) -> None:
        calls.release()
        raise RuntimeError("our dashboard is away")

    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, policy=QUICK, on_stats=hook, stats_interval_s=0.001)
    client.log(query="q")
    for _ in range(3):
        assert calls.acquire(timeout=30)
    assert client.close(30)
    assert len(transport.records) == 1
    assert client.stats().notes["stats_hook_failed"] >= 3
    assert caplog.text.count("our dashboard is away") == 1


def test_a_hook_that_hangs_holds_up_no_trace_and_no_end() -> None:
    hanging, go = threading.Event(), threading.Event()

    def hook(stats: ClientStats) -> None:
        hanging.set()
        go.wait(60)

    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, policy=QUICK, on_stats=hook, stats_interval_s=0.001)
    client.log(query="first")
    assert hanging.wait(30)
    client.log(query="second")
    assert client.close(30)
    assert len(transport.records) == 2
    go.set()


def test_no_hook_no_thread() -> None:
    before = set(threading.enumerate())  # those of other tests may still be ending
    client = TraceClient(app="shop", transport=MemoryTransport(), policy=QUICK)
    client.log(query="q")
    assert [thread.name for thread in set(threading.enumerate()) - before] == ["tracejudge-sdk"]
    client.close(30)
