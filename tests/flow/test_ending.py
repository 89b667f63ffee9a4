"""Commands that run until they are told to stop: they end, whatever they are in the middle of."""

from __future__ import annotations

import signal
import socket
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tests.support.kafka.process import GuardedProcess
from tests.support.records import append, committed
from tests.support.store_process import StoreProcess
from tracejudge.errors import StoreError
from tracejudge.store import Store
from tracejudge.testing import make_trace
from tracejudge_consumer.process.shutdown import cut_off
from tracejudge_consumer.terminal.exit_status import EXIT_INTERRUPTED

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

PATIENCE_S = 120.0  # for a busy machine; what hangs here hangs for longer, or for good

SLOW_MODULE = """\
import pathlib, threading
pathlib.Path("importing").touch()
threading.Event().wait(600)
def texts(ids):
    return {}
"""


class Program:
    """A command, or lines of Python, as a process in a folder."""

    def __init__(self, folder: Path, *command: str, lines: str = "") -> None:
        self.log = folder / f"{len(list(folder.glob('*.log')))}.log"
        started = ["-c", textwrap.dedent(lines)] if lines else ["-m", "tracejudge_consumer.cli", *command]
        shell = ["env", f"--chdir={folder}", sys.executable, *started]
        self.process = GuardedProcess(shell, self.log)

    def wait_until_it_says(self, words: str) -> None:
        self.wait_until(lambda: words in self.said)

    def wait_until(self, come: Callable[[], bool]) -> None:
        for _ in range(int(PATIENCE_S / 0.02)):
            if come():
                return
            assert self.process.exit_status is None, self.said
            threading.Event().wait(0.02)
        raise AssertionError(self.said)

    @property
    def said(self) -> str:
        return self.log.read_text()

    def ends(self, status: int) -> None:
        assert self.process.wait(PATIENCE_S) == status, self.said


def settings(folder: Path, store: str = "chdb:///store", more: str = "") -> None:
    (folder / "tracejudge.toml").write_text(f'queue = "sqlite:///queue.db"\nstore = "{store}"\n{more}')


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("command", ["consume", "up"])
def test_a_signal_breaks_off_a_start_that_takes_long(tmp_path: Path, command: str) -> None:
    """Its imports take seconds, on a busy machine a minute; a user's module here takes ten."""
    (tmp_path / "slow_texts.py").write_text(SLOW_MODULE)
    port = free_port()
    settings(tmp_path, more=f'[intake]\nresolve_nodes = "slow_texts:texts"\n[gateway]\nport = {port}\n')
    program = Program(tmp_path, command)
    program.wait_until((tmp_path / "importing").exists)
    program.process.ask_to_end()
    program.ends(0)
    assert "0 records" in program.said
    assert not (tmp_path / "store" / "owner.json").exists(), "the store was closed"


def test_a_second_signal_ends_a_process_whose_main_thread_is_inside_a_library(tmp_path: Path) -> None:
    """Python's handlers wait for the main thread; a statement of SQLite that has no end never gives it back."""
    program = Program(
        tmp_path,
        lines="""
        import sqlite3, threading
        from tracejudge_consumer.process.shutdown import stop_on_signals
        stop = threading.Event()
        with stop_on_signals(stop):
            threading.Thread(target=lambda: (stop.wait(), print("told", flush=True)), daemon=True).start()
            print("ready", flush=True)
            sqlite3.connect(":memory:").execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
            ).fetchone()
        """,
    )
    program.wait_until_it_says("ready")
    program.process.ask_to_end()
    program.wait_until_it_says("told")
    program.process.ask_to_end()
    program.ends(EXIT_INTERRUPTED)


def test_one_signal_is_the_first_also_when_something_else_has_asked_to_stop(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        lines="""
        import signal, threading, os, time
        from tracejudge_consumer.process.shutdown import stop_on_signals
        stop = threading.Event()
        with stop_on_signals(stop):
            stop.set()  # as a thread that failed does
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.5)
            print("finished what it was at", flush=True)
        os.kill(os.getpid(), signal.SIGTERM)  # handled as before
        """,
    )
    program.ends(-signal.SIGTERM)
    assert "finished what it was at" in program.said


def test_a_thread_that_does_not_end_is_left_behind(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        lines="""
        import logging, threading
        from concurrent.futures import ThreadPoolExecutor
        from tracejudge_consumer.process import ending
        logging.basicConfig(format="%(message)s")
        ending._PATIENCE_S = 0.2
        pool = ThreadPoolExecutor(1, thread_name_prefix="somebody-else")
        pool.submit(threading.Event().wait)
        print("the last words", end="")
        ending.end_process(3)
        """,
    )
    program.ends(3)
    assert "ended with 'somebody-else_0' still at work" in program.said
    assert "the last words" in program.said


@pytest.mark.parametrize("reader", ["gone", "slow"])
def test_whoever_reads_no_more_what_a_process_says_holds_up_no_end(tmp_path: Path, reader: str) -> None:
    program = Program(
        tmp_path,
        lines=f"""
        import os, sys, threading
        from concurrent.futures import ThreadPoolExecutor
        from tracejudge_consumer.process import ending
        ending._PATIENCE_S = 0.2
        there, ours = os.pipe()
        sys.stdout = open(ours, "w")
        if {reader!r} == "gone":
            os.close(there)
        else:
            os.set_blocking(ours, False)
            while True:
                try:
                    os.write(ours, bytes(4096))
                except BlockingIOError:
                    break
            os.set_blocking(ours, True)
        pool = ThreadPoolExecutor(1)
        pool.submit(threading.Event().wait)
        print("the last words", end="")
        ending.end_process(3)
        """,
    )
    program.ends(3)


_UNREAD = """
    import os, sys
    there, ours = os.pipe()
    os.close(there)
    os.dup2(ours, 1)
    from tracejudge_consumer.cli import main
    main({})
"""


def test_what_goes_on_to_run_goes_on_when_nobody_reads_what_it_says(tmp_path: Path) -> None:
    """`tracejudge up | head -1`; or a terminal that was closed."""
    settings(tmp_path)
    program = Program(tmp_path, lines=_UNREAD.format(["gateway", "--port", "0"]))
    program.wait_until_it_says("standard output is closed")
    program.wait_until_it_says("the queue accepts records")
    program.process.ask_to_end()
    program.ends(0)


def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path: Path) -> None:
    settings(tmp_path)
    program = Program(tmp_path, lines=_UNREAD.format(["judges", "show", "lexical"]))
    program.ends(0)
    assert not program.said


@pytest.mark.parametrize("ignored", [False, True])
def test_a_terminal_that_is_closed_asks_to_finish_unless_that_was_to_be_ignored(tmp_path: Path, ignored: bool) -> None:
    """Ignored as by nohup."""
    program = Program(
        tmp_path,
        lines=f"""
        import os, signal, threading
        from tracejudge_consumer.process.shutdown import stop_on_signals
        signal.signal(signal.SIGHUP, signal.SIG_IGN if {ignored} else signal.SIG_DFL)
        stop = threading.Event()
        with stop_on_signals(stop):
            os.kill(os.getpid(), signal.SIGHUP)
            print("told" if stop.wait(0.5) else "not told", flush=True)
        """,
    )
    program.ends(0)
    assert program.said.strip() == ("not told" if ignored else "told")


def test_a_thread_that_waits_inside_a_log_handler_holds_up_no_end(tmp_path: Path) -> None:
    program = Program(
        tmp_path,
        lines="""
        import logging, threading
        from tracejudge_consumer.process import ending
        ending._PATIENCE_S = 0.2
        inside = threading.Event()
        class Stuck(logging.Handler):
            def emit(self, record):
                inside.set()
                threading.Event().wait()
        logging.getLogger().addHandler(Stuck())
        threading.Thread(target=logging.warning, args=("to nobody",)).start()
        inside.wait()
        ending.end_process(3)
        """,
    )
    program.ends(3)


class Waiting:
    """Stands for a store: what waits for it raises when it is closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()

    def ask(self) -> None:
        assert self.closed.wait(PATIENCE_S)
        raise StoreError("this store is closed: open it again")


def test_what_waits_for_a_store_is_cut_off_after_the_stop_and_nothing_else_is_taken_for_it() -> None:
    stop, store = threading.Event(), Waiting()
    with cut_off(cast("Store", store), stop, after_s=0.05):
        stop.set()
        store.ask()
    store = Waiting()
    with pytest.raises(StoreError, match="no such table"), cut_off(cast("Store", store), stop, after_s=PATIENCE_S):
        raise StoreError("no such table")
    assert not store.closed.is_set()
    with cut_off(cast("Store", store), stop, after_s=0.0):
        threading.Event().wait(0.5)  # told to stop long before
    assert store.closed.is_set()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["watch", "consume"])
def test_a_store_that_takes_and_never_answers_holds_up_no_end(tmp_path: Path, command: str) -> None:
    """Its driver waits 150 s for an answer, and a store that is away 60 s more."""
    url = f"chdb:///{tmp_path / 'store'}"
    with StoreProcess(url) as owner:
        owner.hear()
        owner.ask("migrate")
        settings(
            tmp_path, url, more='log_level = "INFO"\n[consumer]\ndrain_timeout_s = 1\n[alert_loop]\ntick_s = 0.1\n'
        )
        append(tmp_path / "queue.db", [make_trace(0)])
        program = Program(tmp_path, command)
        if command == "watch":
            program.wait_until_it_says("leading with fencing number")
        else:
            program.wait_until(lambda: committed(tmp_path / "queue.db", "tracejudge") == 1)
        owner.pause()
        append(tmp_path / "queue.db", [make_trace(1)])
        threading.Event().wait(1.0)  # in which it asks
        program.process.ask_to_end()
        program.ends(0)
        owner.resume()
