"""A child process that never outlives the tests: stopped, killed or paused by its own id."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

# The shell becomes the command (exec), so the pid is the command's own. Beside it waits a reader of our pipe:
# when the test process dies, even by kill -9, the pipe closes and the reader ends the command.
_GUARD = 'exec 3<&0; (cat <&3 >/dev/null; kill -9 $$ 2>/dev/null) & exec 3<&-; exec "$@" </dev/null'


class GuardedProcess:
    """One command in a process group of its own, its output appended to a log file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        atexit.register(self.kill)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Its exit status (minus the signal where one ended it), or None when it still runs after `timeout_s`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def ask_to_end(self) -> None:
        """SIGTERM, without waiting for what comes of it."""
        self._signal(signal.SIGTERM)

    def stop(self, timeout_s: float) -> bool:
        """Ask it to end, and kill it after `timeout_s`; True when it ended by itself."""
        self._signal(signal.SIGCONT)  # a paused process would not hear the request
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        finally:
            self.kill()
        return True

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self._process.wait(30)
        if self._process.stdin is not None and not self._process.stdin.closed:
            # Only the guard is left. It is what keeps the group id from being reused, so once the pipe is
            # closed the group may not be signalled again.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.stdin.close()
        atexit.unregister(self.kill)

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)
        # On a busy machine its threads run on for a while, and one of them may still answer.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        # send_signal polls first: an ended process is never signalled by a pid that others may hold now.
        self._process.send_signal(number)
