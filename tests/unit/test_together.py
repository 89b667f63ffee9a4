"""Several pieces of work at once: one that fails ends the others, and they have ended when the caller hears of it."""

from __future__ import annotations

import asyncio
import gc

import pytest

from tracejudge.together import all_of, ended


class Work:
    """Goes on until it is ended, and has last words that take a while."""

    def __init__(self) -> None:
        self.over = False

    async def __call__(self) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            self.over = True
        return 1


async def value(number: int) -> int:
    return number


async def fails() -> int:
    await asyncio.sleep(0)
    raise LookupError("this one")


async def test_values_come_in_the_order_of_the_work() -> None:
    assert await all_of([value(1), value(2), value(3)]) == [1, 2, 3]
    assert await all_of([value(4)]) == [4]
    assert await all_of([]) == []


async def test_nothing_goes_on_once_one_has_failed() -> None:
    work = Work()
    with pytest.raises(LookupError, match="this one"):
        await all_of([work(), fails(), value(1)])
    assert work.over


async def test_nothing_goes_on_once_the_caller_is_cancelled() -> None:
    first, second = Work(), Work()
    caller = asyncio.ensure_future(all_of([first(), second()]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert first.over
    assert second.over


async def test_what_fails_as_it_is_ended_hides_nothing_and_is_not_logged_as_lost() -> None:
    said: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(str(context["message"])))

    async def fails_at_the_end() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("as it ended")

    with pytest.raises(LookupError, match="this one"):
        await all_of([fails_at_the_end(), fails()])
    task = asyncio.ensure_future(fails_at_the_end())
    await asyncio.sleep(0)
    await ended([task])
    assert task.done()
    del task
    gc.collect()
    assert said == []
