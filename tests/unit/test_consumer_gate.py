"""The gate before a judge: never more inside than there are places, first come first served, nothing lost."""

from __future__ import annotations

import asyncio

import pytest

from tracejudge_consumer.stages.gate import Gate


async def turn() -> None:
    """Long enough for whatever the loop was asked to do."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_as_many_get_in_as_there_are_places_and_the_rest_when_some_leave() -> None:
    gate = Gate(5)
    assert await gate.enter(3) == 3
    assert await gate.enter(4) == 2
    waiting = asyncio.ensure_future(gate.enter(4))
    await turn()
    assert not waiting.done()
    gate.leave()
    gate.leave(2)
    assert await waiting == 3  # what was given back in one go is handed out in one go
    gate.leave(5)
    assert await gate.enter(9) == 5


async def test_who_asked_first_gets_in_first_and_nobody_passes_who_waits() -> None:
    gate = Gate(1)
    await gate.enter(1)
    order: list[str] = []

    async def enter(name: str) -> None:
        await gate.enter(1)
        order.append(name)

    first = asyncio.ensure_future(enter("first"))
    await turn()
    gate.leave()
    second = asyncio.ensure_future(enter("second"))  # between the leaving and the handing out
    await turn()
    assert order == ["first"]
    gate.leave()
    await asyncio.gather(first, second)
    assert order == ["first", "second"]


@pytest.mark.parametrize("granted", [False, True])
async def test_a_place_of_somebody_who_was_cancelled_is_not_lost(granted: bool) -> None:
    gate = Gate(2)
    await gate.enter(2)
    gone = asyncio.ensure_future(gate.enter(2))
    await asyncio.sleep(0)
    if granted:
        gate.leave(2)
        await asyncio.sleep(0)  # the places are granted now, and who waits for them has not run yet
    gone.cancel()
    await turn()
    if not granted:
        gate.leave(2)
    assert await asyncio.wait_for(gate.enter(2), 1) == 2
    with pytest.raises(asyncio.CancelledError):
        await gone
