"""One timer for all calls of a judge: each ends at its own time, and not by another's."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.virtual_time import VirtualLoop, run_virtually
from tracejudge.judging.calls.deadlines import Deadlines, within
from tracejudge.judging.calls.failures import CallTimeout

LIMIT_S = 10.0


def test_each_call_ends_when_its_own_limit_is_over() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(LIMIT_S)
    ended: dict[float, float] = {}

    async def call(begins_s: float, takes_s: float) -> None:
        await asyncio.sleep(begins_s)
        try:
            await deadlines.keep(asyncio.sleep(takes_s))
        except CallTimeout:
            ended[begins_s] = loop.time()

    async def all_of_them() -> None:
        # Between calls that hang are some that are answered, a little before their limit or at once.
        await asyncio.gather(call(0, 1e9), call(1, 0), call(2, 1e9), call(3, LIMIT_S - 0.1), call(40, 1e9), call(41, 5))

    run_virtually(all_of_them(), loop)
    assert ended == {
        0: pytest.approx(10.0, abs=0.01),
        2: pytest.approx(12.0, abs=0.01),
        40: pytest.approx(50.0, abs=0.01),
    }


def test_a_cancellation_from_outside_is_no_timeout() -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(LIMIT_S)

    async def main() -> None:
        task = asyncio.ensure_future(deadlines.keep(asyncio.sleep(1e9)))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert loop.time() == pytest.approx(1.0)
        assert await deadlines.keep(asyncio.sleep(1.0, "later")) == "later"

    run_virtually(main(), loop)


def test_a_task_goes_on_after_its_call_timed_out() -> None:
    deadlines = Deadlines(LIMIT_S)

    async def main() -> list[str]:
        said = []
        for takes_s in (1e9, 1.0, 1e9):
            try:
                said.append(await deadlines.keep(asyncio.sleep(takes_s, "answer")))
            except CallTimeout as error:
                said.append(str(error)[:9])
        return said

    assert run_virtually(main()) == ["no answer", "answer", "no answer"]


def test_a_call_that_answers_when_it_is_cancelled_leaves_no_cancellation_behind() -> None:
    deadlines = Deadlines(LIMIT_S)

    async def stubborn() -> str:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            return "at last"
        return "never"

    async def main() -> tuple[str, int]:
        said = await deadlines.keep(stubborn())
        task = asyncio.current_task()
        return said, task.cancelling() if task is not None and hasattr(task, "cancelling") else 0

    assert run_virtually(main()) == ("at last", 0)


def stand_still(loop: VirtualLoop, seconds: float) -> None:
    """What a blocking library does to the loop it is called on."""
    loop._jumping.jumped_s += seconds


@pytest.mark.parametrize("own_task", [True, False])
def test_a_reply_that_came_while_the_loop_stood_still_is_no_timeout(own_task: bool) -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(LIMIT_S)

    async def reply() -> str:
        # Four turns of the loop for what has long arrived: read, parsed, handed on.
        await asyncio.sleep(1.0)
        for _ in range(3):
            await asyncio.sleep(0)
        return "YES"

    async def main() -> None:
        call = within(reply(), LIMIT_S) if own_task else deadlines.keep(reply())
        waiting = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        stand_still(loop, 3 * LIMIT_S)
        assert await waiting == "YES"

    run_virtually(main(), loop)


@pytest.mark.parametrize("own_task", [True, False])
def test_a_call_that_hangs_beyond_that_ends_all_the_same(own_task: bool) -> None:
    loop = VirtualLoop()
    deadlines = Deadlines(LIMIT_S)

    async def main() -> None:
        hanging = asyncio.sleep(1e9)
        waiting = asyncio.ensure_future(within(hanging, LIMIT_S) if own_task else deadlines.keep(hanging))
        await asyncio.sleep(0)
        stand_still(loop, 1.5 * LIMIT_S)
        with pytest.raises(CallTimeout):
            await waiting
        assert loop.time() == pytest.approx(2.0 * LIMIT_S, abs=0.2)

    run_virtually(main(), loop)


def test_it_serves_one_event_loop_after_the_other() -> None:
    deadlines = Deadlines(LIMIT_S)
    for _ in range(3):
        with pytest.raises(CallTimeout):
            run_virtually(deadlines.keep(asyncio.sleep(1e9)))
