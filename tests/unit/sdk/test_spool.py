"""The spool: what the queue has not taken yet waits on disk, bounded, in order, for this process or the next."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tracejudge_sdk import ConfigError, SendPolicy, TraceClient, TransportRejected, TransportUnavailable
from tracejudge_sdk.delivery import Ready
from tracejudge_sdk.errors import SpoolFull
from tracejudge_sdk.spool import Spool
from tracejudge_sdk.spool_file import SUFFIX, SpoolFile, disk_bytes
from tracejudge_sdk.testing import MemoryTransport, traces_of

QUICK = SendPolicy(linger_s=0.001, first_pause_s=0.001, longest_pause_s=0.002)
DOWN = TransportUnavailable("down")


class Down(MemoryTransport):
    """A queue that is not there until `error` is None."""

    def __init__(self) -> None:
        super().__init__()
        self.error = DOWN


def _client(folder: Path, transport: MemoryTransport, **settings: Any) -> TraceClient:
    return TraceClient(app="shop", transport=transport, policy=QUICK, spool=folder, **settings)


def _on_disk(client: TraceClient) -> None:
    """Waits until nothing is in memory any more."""
    while client.stats().queued:
        client.flush(0.01)


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_an_outage_goes_to_disk_and_arrives_in_order_when_it_is_over(tmp_path: Path) -> None:
    transport = Down()
    client = _client(tmp_path / "spool", transport, max_queue_records=10)
    for number in range(100):  # ten times what memory may hold
        client.log(query="q", trace_id=f"t-{number:03d}")
        if number % 5 == 4:
            _on_disk(client)
    stats = client.stats()
    assert (stats.spooled, stats.sent, stats.dropped_total) == (100, 0, 0)
    assert "down" in (stats.last_error or "")
    transport.error = None
    assert client.close(60)
    assert [key for key, _ in transport.records] == [f"t-{number:03d}" for number in range(100)]
    stats = client.stats()
    assert (stats.logged, stats.spooled, stats.sent) == (100, 0, 100)
    assert _files(tmp_path / "spool") == [], "nothing is left where everything was sent"


def test_nothing_is_made_before_the_first_trace(tmp_path: Path) -> None:
    client = _client(tmp_path / "spool", MemoryTransport())
    assert client.close(10)
    assert not (tmp_path / "spool").exists()


def test_what_a_process_left_behind_is_sent_by_the_next_one_before_its_own(tmp_path: Path) -> None:
    down = Down()
    first = _client(tmp_path, down)
    for number in range(5):
        first.log(query="q", trace_id=f"first-{number}")
    _on_disk(first)
    assert not first.close(60), "an end does not wait for a queue that is down: the disk has it"
    assert first.stats().spooled == 5
    assert dict(first.stats().dropped) == {}
    transport = MemoryTransport()
    second = _client(tmp_path, transport)
    second.log(query="q", trace_id="second")
    assert second.flush(30)
    while second.stats().recovered < 5:
        assert second.flush(1)
    assert second.close(30)
    keys = [key for key, _ in transport.records]
    assert [key for key in keys if key != "second"] == [f"first-{number}" for number in range(5)]
    assert keys.count("second") == 1
    stats = second.stats()
    assert (stats.logged, stats.sent, stats.recovered) == (1, 1, 5)
    assert _files(tmp_path) == []


def test_a_file_is_drained_by_one_client_alone(tmp_path: Path) -> None:
    """Also by two clients of one process: the lock belongs to the open file, not to the process."""
    down = Down()
    first = _client(tmp_path, down)
    first.log(query="q", trace_id="first")
    _on_disk(first)
    transport = MemoryTransport()
    second = _client(tmp_path, transport)
    second.log(query="q", trace_id="second")
    assert second.flush(30)
    (path,) = [path for path in tmp_path.glob(f"*{SUFFIX}") if SpoolFile.adopt(path) is None and disk_bytes(path)][:1]
    assert path.exists()
    assert second.close(30)
    assert [key for key, _ in transport.records] == ["second"]
    down.error = None
    assert first.close(30)
    assert [key for key, _ in down.records] == ["first"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_neither_drains_nor_holds_what_is_its_parents(tmp_path: Path) -> None:
    down = Down()
    client = _client(tmp_path, down)
    client.log(query="q", trace_id="parent")
    _on_disk(client)
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    child = os.fork()
    if child == 0:
        ok = SpoolFile.adopt(path) is None  # while the parent lives
        client.log(query="q", trace_id="child")
        _on_disk(client)
        ok = ok and client.stats().spooled == 1 and len(list(tmp_path.glob(f"*{SUFFIX}"))) == 2
        client.close(10)
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert path.exists()
    down.error = None
    assert client.close(30)
    assert [key for key, _ in down.records] == ["parent"]
    heir = _client(tmp_path, MemoryTransport(records=down.records))
    heir.log(query="q", trace_id="heir")
    while heir.stats().recovered < 1:
        assert heir.flush(1)
    assert heir.close(30)
    assert sorted(key for key, _ in down.records) == ["child", "heir", "parent"]


def test_the_spool_is_bounded_and_what_it_cannot_hold_is_counted(tmp_path: Path) -> None:
    down = Down()
    client = _client(tmp_path, down, spool_max_bytes=1_000_000, max_queue_records=20)
    text = "x" * 10_000
    for number in range(400):
        client.log(query="q", response=text, trace_id=f"t-{number:03d}")
        client.flush(0.0)
    stats = client.stats()
    assert stats.spooled * 10_000 < 1_000_000
    assert stats.spooled + stats.queued + stats.dropped["queue_full"] == 400
    assert stats.dropped["queue_full"] > 200
    assert sum(disk_bytes(path) for path in tmp_path.glob(f"*{SUFFIX}")) < 1_000_000 * 1.2 + 5_000_000
    down.error = None
    assert client.close(60)
    keys = [key for key, _ in down.records]
    assert keys == sorted(keys), "the oldest are kept, in order"
    assert len(keys) == 400 - client.stats().dropped_total
    assert client.stats().spooled == 0


def test_a_disk_that_takes_nothing_is_passed_by(tmp_path: Path) -> None:
    transport = MemoryTransport()
    client = _client(tmp_path / "spool", transport)
    (tmp_path / "spool").write_text("in the way")
    client.log(query="q", trace_id="t")
    assert client.close(30)
    assert [key for key, _ in transport.records] == ["t"]
    stats = client.stats()
    assert (stats.sent, stats.spooled) == (1, 0)
    assert "spool" in (stats.last_error or "")


def test_a_disk_and_a_queue_that_fail_lose_nothing_while_they_do(tmp_path: Path) -> None:
    down = Down()
    client = _client(tmp_path / "spool", down)
    (tmp_path / "spool").write_text("in the way")
    client.log(query="q", trace_id="t")
    assert not client.flush(0.1)
    assert client.stats().queued == 1
    (tmp_path / "spool").unlink()
    _on_disk(client)
    assert client.stats().spooled == 1
    down.error = None
    assert client.close(30)
    assert [key for key, _ in down.records] == ["t"]


def test_a_file_that_somebody_deletes_is_counted_as_lost(tmp_path: Path) -> None:
    down = Down()
    client = _client(tmp_path, down)
    for number in range(3):
        client.log(query="q", trace_id=f"old-{number}")
    _on_disk(client)
    for path in tmp_path.iterdir():
        path.unlink()
    down.error = None
    client.flush(1)  # what was read already may still arrive
    client.log(query="q", trace_id="new")
    assert client.close(30)
    stats = client.stats()
    assert stats.spooled == 0
    assert stats.sent + stats.dropped.get("spool_lost", 0) == 4 == stats.logged
    assert "new" in [key for key, _ in down.records]


def test_a_record_that_is_refused_costs_no_other(tmp_path: Path) -> None:
    class Picky(MemoryTransport):
        def send(self, records: Any) -> None:
            refused = tuple(i for i, (key, _) in enumerate(records) if key == "t-1")
            self.records.extend(pair for pair in records if pair[0] != "t-1")
            if refused:
                raise TransportRejected("no", failed=refused)

    transport = Picky()
    client = _client(tmp_path, transport)
    for number in range(3):
        client.log(query="q", trace_id=f"t-{number}")
    assert client.close(30)
    assert [key for key, _ in transport.records] == ["t-0", "t-2"]
    assert dict(client.stats().dropped) == {"transport_rejected": 1}


def test_a_cut_trace_arrives_cut_through_the_spool(tmp_path: Path) -> None:
    transport = MemoryTransport()
    client = _client(tmp_path, transport)
    client.log(query="large", response="r" * 2_000_000)
    client.log(query="small")
    assert client.close(30)
    assert [(trace.query, trace.truncated) for trace in traces_of(transport)] == [("large", True), ("small", False)]
    assert client.stats().truncated == 1


# -- the folder by itself ----------------------------------------------------------------------------------------------


def _records(*names: str, size: int = 10) -> list[Ready]:
    return [Ready(None, name, b"x" * size) for name in names]


def _append(spool: Spool, *names: str, size: int = 10) -> None:
    spool.append(_records(*names, size=size), on_disk=lambda _: None)


def _read(spool: Spool) -> list[str]:
    batch = spool.read(max_records=10, max_bytes=1_000_000)
    return [] if batch is None else [record.key for record in batch.records]


def _drain(spool: Spool) -> None:
    while (batch := spool.read(max_records=10, max_bytes=10_000_000)) is not None:
        spool.done(batch, [])


def test_what_is_left_of_a_batch_is_read_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=1_000_000)
    _append(spool, "a", "b", "c")
    batch = spool.read(max_records=2, max_bytes=1000)
    assert batch is not None
    assert batch.own
    assert [record.key for record in batch.records] == ["a", "b"]
    spool.done(batch, batch.records[1:])
    assert _read(spool) == ["b", "c"]


def test_a_file_that_was_deleted_begins_anew_and_old_batches_touch_no_new_record(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=1_000_000)
    _append(spool, "a", "b", "c")
    old = spool.read(max_records=10, max_bytes=1000)
    assert old is not None
    for path in tmp_path.iterdir():
        path.unlink()
    _append(spool, "d", "e")
    spool.done(old, [])  # they were in memory and have arrived
    assert _read(spool) == ["d", "e"]
    assert spool.vanished() == 0
    _drain(spool)
    for path in tmp_path.iterdir():
        path.unlink()
    _append(spool, "f")
    assert _read(spool) == ["f"]


def test_records_deleted_before_they_were_read_are_told(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=1_000_000)
    _append(spool, "a", "b", "c")
    for path in tmp_path.iterdir():
        path.unlink()
    assert spool.vanished() == 3
    assert spool.vanished() == 0
    _append(spool, "d")
    assert _read(spool) == ["d"]


def test_a_full_spool_says_its_limit_and_takes_again_what_was_drained(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=2_000)
    _append(spool, "a", size=1_000)
    with pytest.raises(SpoolFull, match="of 2000 bytes"):
        _append(spool, "b", size=1_000)
    _drain(spool)
    _append(spool, "b", size=1_000)
    assert _read(spool) == ["b"]


def test_what_others_left_counts_too(tmp_path: Path) -> None:
    left_behind = Spool(tmp_path, max_bytes=1_000_000)
    _append(left_behind, "a", size=200_000)
    left_behind.close(1)
    with pytest.raises(SpoolFull):
        _append(Spool(tmp_path, max_bytes=100_000), "b")


def test_a_drained_file_gives_its_disk_space_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=50_000_000)
    for _ in range(10):
        _append(spool, "a", size=900_000)
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    assert disk_bytes(path) > 9_000_000
    _drain(spool)
    assert disk_bytes(path) < 1_000_000
    _append(spool, "b")
    assert _read(spool) == ["b"]


def test_a_file_of_somebody_else_in_the_folder_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / f"0{SUFFIX}").write_text("not a log of ours " * 100)
    left_behind = Spool(tmp_path, max_bytes=1_000_000)
    _append(left_behind, "a")
    left_behind.close(1)
    spool = Spool(tmp_path, max_bytes=1_000_000)
    assert spool.adopt()
    assert _read(spool) == ["a"]
    assert "left alone" in caplog.text
    _drain(spool)
    assert not spool.adopt()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"spool": ""}, "spool: '' is not the path"),
        ({"spool": 5}, "spool: 5 is not the path"),
        ({"spool": "s", "spool_max_bytes": 10}, "spool_max_bytes: 10 is not a whole number of at least 1000000"),
        ({"stats_interval_s": 0}, "stats_interval_s: 0 is not"),
        ({"on_stats": 3}, "on_stats: int cannot be called"),
    ],
)
def test_settings_that_cannot_work_are_told(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TraceClient("memory://x", app="shop", **settings)


def test_a_spool_that_is_a_file_is_told_at_construction(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    path.write_text("x")
    with pytest.raises(ConfigError, match="is a file: give a folder"):
        TraceClient("memory://x", app="shop", spool=path)


def test_a_damaged_file_left_behind_holds_up_nothing(tmp_path: Path) -> None:
    down = Down()
    first = _client(tmp_path, down)
    for number in range(50):
        first.log(query="q" * 2000, trace_id=f"first-{number}")
    _on_disk(first)
    first.close(30)
    (damaged,) = tmp_path.glob(f"*{SUFFIX}")
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:16384] + b"\xff" * (len(whole) - 16384))  # the first pages, by which it is ours, stand
    transport = MemoryTransport()
    second = _client(tmp_path, transport)
    second.log(query="q", trace_id="second")
    assert second.close(30)
    assert [key for key, _ in transport.records if key == "second"] == ["second"]
    assert damaged.exists(), "it may be recovered by hand"


def test_a_file_damaged_while_it_is_used_is_counted_as_lost_and_a_new_one_takes_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path, max_bytes=1_000_000)
    spool.append(_records("lost 1", "lost 2", "lost 3"), on_disk=lambda _: None)
    (file,) = tmp_path.glob("*.spool")
    assert spool._own is not None
    spool._own._log._file._disconnect()  # what SQLite holds in memory hides the damage
    data = file.read_bytes()
    file.write_bytes(data[:100] + b"\xff" * (len(data) - 100))
    assert spool.read(max_records=10, max_bytes=1000) is None
    assert (spool.vanished(), spool.vanished()) == (3, 0)
    assert "the file is damaged" in caplog.text
    spool.append(_records("kept"), on_disk=lambda _: None)
    batch = spool.read(max_records=10, max_bytes=1000)
    assert batch is not None
    assert ([record.key for record in batch.records], batch.own) == (["kept"], True)
    assert spool.vanished() == 0
    spool.close(1)
    assert file.exists(), "somebody may want to read what is left"


def test_a_file_that_could_not_be_opened_for_a_while_is_sent_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = Down()
    first = _client(tmp_path, down)
    first.log(query="q", trace_id="first")
    _on_disk(first)
    first.close(30)
    monkeypatch.setattr("tracejudge_sdk.spool._LEFT_ALONE_S", 0.0)
    spool = Spool(tmp_path, max_bytes=10_000_000)
    adopt = SpoolFile.adopt

    def no_descriptor(path: Path) -> SpoolFile | None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(SpoolFile, "adopt", no_descriptor)
    assert not spool.adopt()
    monkeypatch.setattr(SpoolFile, "adopt", adopt)
    assert spool.adopt()
    batch = spool.read(max_records=10, max_bytes=1000)
    assert batch is not None
    assert [record.key for record in batch.records] == ["first"]
    spool.close(1)


def test_two_callers_start_one_thread(tmp_path: Path) -> None:
    """One has looked whether it runs when the other starts it: two threads would send and count everything twice."""
    client = _client(tmp_path, MemoryTransport())
    drainer = client._pipeline._drainer
    assert drainer is not None
    lock, others = drainer._start_lock, [drainer.start]

    class Between:
        def acquire(self, *, blocking: bool) -> bool:
            if others:
                others.pop()()
            return lock.acquire(blocking=blocking)

        def release(self) -> None:
            lock.release()

    drainer._start_lock = Between()  # type: ignore[assignment]
    drainer.start()
    started = [thread for thread in threading.enumerate() if getattr(thread, "_target", None) == drainer._run]
    assert len(started) == 1
    assert client.close(10)
