"""One arena for all threads, asked of the C library itself."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys

import pytest

from tracejudge_consumer import cli

HAS_ARENAS = sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "malloc_info")
pytestmark = pytest.mark.skipif(not HAS_ARENAS, reason="this C library has no arenas: it is not glibc")

COUNT = """
import ctypes, threading
from tracejudge_consumer.process.arena import share_one_arena
if SHARED:
    print(share_one_arena())
libc = ctypes.CDLL(None)
barrier = threading.Barrier(4)
def work():
    held = [b"x" * 5000 for _ in range(10)]
    barrier.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for one in threads: one.start()
for one in threads: one.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


def arenas(*, shared: bool, **environ: str) -> tuple[str, int]:
    kept = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    told = subprocess.run(
        [sys.executable, "-u", "-c", COUNT.replace("SHARED", str(shared))],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return told.splitlines()[0], len(re.findall(r'<heap nr="\d+">', told))


def test_threads_have_arenas_of_their_own_and_share_one_once_asked() -> None:
    assert arenas(shared=False)[1] > 1
    assert arenas(shared=True) == ("True", 1)


def test_somebodys_own_choice_stands() -> None:
    said, count = arenas(shared=True, MALLOC_ARENA_MAX="3")
    assert said == "False"
    assert 1 < count <= 3


def test_the_command_line_asks_for_it_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[object] = []

    def run(args: object) -> int:
        order.append(args)
        return 0

    monkeypatch.setattr(cli, "share_one_arena", lambda: order.append("arena"))
    monkeypatch.setattr(cli, "run", run)
    monkeypatch.setattr(cli, "end_process", order.append)
    cli.main(["stats"])
    assert order == ["arena", ["stats"], 0]
