"""Several processes on one embedded store: one owns it, the others connect, and somebody takes over when it goes."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.store_process import StoreProcess
from tracejudge.errors import EmbeddedStoreLocked
from tracejudge.store.embedded.locate import locate
from tracejudge.store.embedded.ownership import FILE_NAME, LOCK_NAME, published

pytest.importorskip("chdb", reason="the embedded store needs tracejudge[embedded]")

pytestmark = pytest.mark.timeout(120)


def _url(directory: Path) -> str:
    return f"chdb:///{directory}"


def test_b44b_a_second_process_connects_to_the_owner_and_b44d_takes_over_from_it(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    with StoreProcess(_url(directory)) as first:
        assert first.hear() == "open"
        assert len(first.ask("migrate")) >= 1
        assert first.ask("insert", 0, 10) == 10
        assert published(directory) is not None
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((directory / FILE_NAME).stat().st_mode) == 0o600
        with StoreProcess(_url(directory)) as second:
            assert second.hear() == "open"
            assert second.ask("count") == 10
            assert second.ask("insert", 10, 15) == 5
            assert first.ask("count") == 15

            first.kill()
            assert second.ask("insert", 15, 20) == 5
            assert second.ask("count") == 20
            owner = published(directory)
            assert owner is not None
            assert owner.pid == second.pid

            # B44(d): the first one starts again, now as a guest; and takes over when the other closes in peace.
            with StoreProcess(_url(directory)) as third:
                assert third.hear() == "open"
                assert third.ask("count") == 20
                assert second.quit() == 0
                assert third.ask("insert", 20, 25) == 5
                assert third.ask("count") == 25
                owner = published(directory)
                assert owner is not None
                assert owner.pid == third.pid
                assert third.quit() == 0
    assert published(directory) is None


def test_nothing_acknowledged_is_lost_when_the_owner_is_killed_under_load(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    with StoreProcess(_url(directory)) as owner, StoreProcess(_url(directory)) as writer:
        # Either may have become the owner; the one that did is killed.
        assert owner.hear() == writer.hear() == "open"
        assert owner.ask("migrate") or writer.ask("migrate") == []
        holder = published(directory)
        assert holder is not None
        if holder.pid == writer.pid:
            owner, writer = writer, owner
        writer.tell("flood", 10)
        while (acknowledged := writer.hear()) < 100:
            pass
        owner.kill()
        while (acknowledged := writer.hear()) < 300:
            pass
        writer.tell("stop")
        while (told := writer.hear()) != "stopped":
            acknowledged = told
        assert writer.ask("count") == acknowledged
        holder = published(directory)
        assert holder is not None
        assert holder.pid == writer.pid


def test_two_processes_open_and_migrate_together(tmp_path: Path) -> None:
    url = f"{_url(tmp_path / 'store')}?database=fresh"
    with StoreProcess(url) as one, StoreProcess(url) as two:
        assert one.hear() == two.hear() == "open"
        one.tell("migrate")
        two.tell("migrate")
        applied = [one.hear(), two.hear()]
        assert any("0001_foundation" in names for names in applied)
        assert one.ask("migrate") == two.ask("migrate") == []
        assert one.ask("insert", 0, 3) == 3
        assert two.ask("count") == 3


def test_b44a_a_forked_child_gets_an_error_and_b44c_a_second_directory_names_the_first(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    with StoreProcess(_url(directory)) as owner:
        assert owner.hear() == "open"
        owner.ask("migrate")
        owner.ask("insert", 0, 3)
        used, opened, count = owner.ask("fork")
        assert used.startswith("StoreError")
        assert "spawn" in used
        assert opened == "worked"  # as a guest of its parent, without touching the engine
        assert count == 3

        other = tmp_path / "other"
        told = owner.ask("open", _url(other))
        assert told.startswith("StoreError")
        assert str(directory) in told
        assert str(other) in told
        assert owner.ask("count") == 3

        # The child is gone and has not kept the directory: when the owner dies the next one gets in.
        owner.kill()
        with StoreProcess(_url(directory)) as next_owner:
            assert next_owner.hear() == "open"
            assert next_owner.ask("count") == 3


def test_a_holder_that_does_not_answer_is_named(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, b"4711")
        with pytest.raises(EmbeddedStoreLocked) as caught:
            locate(tmp_path, user=object(), timeout_s=0.1)
        assert caught.value.holder_pid == 4711
        assert str(tmp_path) in str(caught.value)
        assert "4711" in str(caught.value)
    finally:
        os.close(descriptor)


def test_a_file_left_by_a_killed_owner_is_not_believed(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    stale = '{"host": "127.0.0.1", "port": 1, "user": "u", "password": "p", "instance": "i", "pid": 1}'
    (tmp_path / FILE_NAME).write_text(stale)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(EmbeddedStoreLocked, match="port 1"):
            locate(tmp_path, user=object(), timeout_s=0.1)
        endpoint = published(tmp_path)
        assert endpoint is not None
        assert "password" not in repr(endpoint)
    finally:
        os.close(descriptor)


def test_a_process_that_ends_without_closing_leaves_the_directory_in_order(tmp_path: Path) -> None:
    program = (
        "import sys; from tracejudge.store import open_store; store = open_store(sys.argv[1]); store.migrate(); "
        "print(store.version())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, _url(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert published(tmp_path) is None
