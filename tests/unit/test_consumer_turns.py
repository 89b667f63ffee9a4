"""Batches that hold the same trace: one after the other, in the order of taking, and nobody waits for nothing."""

from __future__ import annotations

import asyncio

from tracejudge.scores import TraceKey
from tracejudge_consumer.stages.turns import Turns

A, B, C = (TraceKey("prod", "app", name) for name in "abc")


async def a_while() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_batch_waits_for_the_traces_it_shares_and_no_others() -> None:
    turns = Turns()
    first, second, third = turns.take([A, B]), turns.take([B, C]), turns.take([C])
    assert not first.before
    assert (set(second.before), set(third.before)) == ({B}, {C})
    waiting = [asyncio.ensure_future(turn.comes()) for turn in (first, second, third)]
    await a_while()
    assert [one.done() for one in waiting] == [True, False, False]
    first.leave([A])
    await a_while()
    assert not waiting[1].done()
    first.leave([B, B])
    await a_while()
    assert [one.done() for one in waiting] == [True, True, False]
    second.leave_all()
    await asyncio.gather(*waiting)


async def test_what_was_left_holds_up_nobody() -> None:
    turns = Turns()
    first = turns.take([A])
    second = turns.take([A])
    first.leave([A])
    await second.comes()
    second.leave([A])
    assert not turns.take([A, B]).before


async def test_several_may_wait_for_one() -> None:
    turns = Turns()
    first = turns.take([A])
    waiting = [asyncio.ensure_future(first.left(A)) for _ in range(3)]
    await a_while()
    first.leave([A])
    await asyncio.gather(*waiting)


async def test_a_later_batch_is_waited_for_by_those_behind_it_not_by_those_before() -> None:
    turns = Turns()
    first, second = turns.take([A]), turns.take([A])
    first.leave([A])
    third = turns.take([A])
    waiting = asyncio.ensure_future(third.comes())
    await a_while()
    assert not waiting.done()
    second.leave([A])
    await waiting


async def test_batches_that_all_share_a_trace_do_not_keep_each_other() -> None:
    turns = Turns()
    last = turns.take([A])
    ended = []
    for _ in range(5):
        turn = turns.take([A])
        last.leave_all()
        ended.append(last)
        await turn.comes()
        last = turn
    assert set(last.before) == {A}
    assert not any(turn.before for turn in ended)


async def test_who_was_behind_a_batch_that_ended_as_it_waited_waits_for_those_before_it() -> None:
    turns = Turns()
    first, second = turns.take([A, B]), turns.take([A])
    third = turns.take([A])
    waiting = asyncio.ensure_future(third.comes())
    await a_while()
    second.leave_all()  # cancelled, or failed on other traces
    fourth = turns.take([A])
    behind = asyncio.ensure_future(fourth.comes())
    await a_while()
    assert not waiting.done(), "two are at work on one trace"
    first.leave([A])
    await waiting
    await a_while()
    assert not behind.done()
    third.leave_all()
    await behind


async def test_who_comes_after_a_batch_that_ended_as_it_waited_waits_for_the_one_at_work() -> None:
    turns = Turns()
    first, second, third = turns.take([A, B]), turns.take([A]), turns.take([A])
    third.leave_all()
    second.leave_all()
    fourth = turns.take([A, C])
    assert set(fourth.before) == {A}
    waiting = asyncio.ensure_future(fourth.comes())
    await a_while()
    assert not waiting.done()
    first.leave_all()
    await waiting
    fourth.leave_all()
    assert not turns.take([A]).before


async def test_batches_that_end_as_they_wait_do_not_keep_each_other() -> None:
    turns = Turns()
    first = turns.take([A])
    ended = [turns.take([A]) for _ in range(5)]
    for turn in ended:
        turn.leave_all()
    assert all(turn.before == {A: first} for turn in ended)
