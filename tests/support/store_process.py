"""A process of its own with an open Store, driven line by line: what several processes on one directory need.

Run as a program it reads one JSON command a line and answers each with one JSON line; `StoreProcess` is the other end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]


class StoreProcess:
    """A started process; leaving the context kills it."""

    def __init__(self, url: str, *, settle_timeout_s: float = 30.0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.store_process", url, str(settle_timeout_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, command: str, *arguments: Any) -> None:
        """Sends a command without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([command, *arguments]) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        """The next answer. Raises AssertionError when the process has ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process ended with status {self._process.poll()}"
        return json.loads(line)

    def ask(self, command: str, *arguments: Any) -> Any:
        """Sends a command and returns its answer."""
        self.tell(command, *arguments)
        return self.hear()

    def kill(self) -> None:
        """Ends the process as a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def pause(self) -> None:
        """Freezes the process: connections stay open and nothing answers."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def quit(self) -> int:
        """Lets the process close its store and end; returns its exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait()

    def __enter__(self) -> StoreProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()


def _main(url: str, settle_timeout_s: float) -> None:
    from tracejudge.errors import TraceJudgeError
    from tracejudge.store import ScoreFilter, open_store
    from tracejudge.testing import make_score

    def answer(value: Any) -> None:
        print(json.dumps(value), flush=True)

    stop = threading.Event()

    def flood(batch: int) -> None:
        """Inserts batch after batch, telling of each that was acknowledged, until the next command."""
        number = 0
        while not stop.is_set():
            store.scores.insert([make_score(number + i) for i in range(batch)])
            number += batch
            answer(number)
        answer("stopped")

    def fork() -> Any:
        """What happens in a forked child, and to this process after it."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            seen = []
            works: list[Callable[[], object]] = [store.now, lambda: open_store(url, settle_timeout_s=2.0).now()]
            for work in works:
                try:
                    work()
                    seen.append("worked")
                except TraceJudgeError as error:
                    seen.append(f"{type(error).__name__}: {error}")
            os.write(writer, json.dumps(seen).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            told = json.loads(pipe.read())
        os.waitpid(child, 0)
        return [*told, store.scores.count(ScoreFilter())]

    with open_store(url, settle_timeout_s=settle_timeout_s) as store:
        answer("open")
        worker: threading.Thread | None = None
        for line in sys.stdin:
            command, *arguments = json.loads(line)
            if command == "migrate":
                answer(store.migrate())
            elif command == "insert":
                answer(store.scores.insert([make_score(i) for i in range(*arguments)]).stored)
            elif command == "count":
                answer(store.scores.count(ScoreFilter()))
            elif command == "fork":
                answer(fork())
            elif command == "flood":
                worker = threading.Thread(target=flood, args=arguments)
                worker.start()
            elif command == "stop" and worker is not None:
                stop.set()
                worker.join()
            elif command == "open":
                try:
                    open_store(arguments[0], settle_timeout_s=1.0).close()
                    answer("opened")
                except TraceJudgeError as error:
                    answer(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    _main(sys.argv[1], float(sys.argv[2]))
