"""A command judges in one run of an event loop, which no judge of somebody else's can hold up or speak for."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from tracejudge_consumer.process import judging_run
from tracejudge_consumer.process.judging_run import run_judging


def test_a_thread_that_a_judge_left_behind_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging_run, "_PATIENCE_S", 0.01)
    release, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        release.wait()

    async def leave_one_behind() -> str:
        asyncio.get_running_loop().run_in_executor(None, wait)
        return "done"

    found: list[str] = []
    caller = threading.Thread(target=lambda: found.append(run_judging(leave_one_behind())), daemon=True)
    try:
        caller.start()
        caller.join(20.0)
        assert begun.is_set()
        assert found == ["done"]
    finally:
        release.set()


def test_what_a_thread_is_about_to_finish_is_waited_for() -> None:
    finished: list[bool] = []

    async def work() -> None:
        asyncio.get_running_loop().run_in_executor(None, finished.append, True)

    run_judging(work())
    assert finished == [True]


def test_what_a_judge_prints_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    async def chatty() -> None:
        print("loading model")

    run_judging(chatty())
    print("{}", file=sys.stdout)
    out, err = capsys.readouterr()
    assert (out, err) == ("{}\n", "loading model\n")
