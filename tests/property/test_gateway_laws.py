"""Laws of the gateway's body: however it is cut and packed it is the same, and never more than its limit is held."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import traceback
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracejudge.testing import make_trace
from tracejudge_consumer.gateway.answers import Refusal
from tracejudge_consumer.gateway.body import Budget, read_body
from tracejudge_consumer.gateway.lines import read_lines
from tracejudge_sdk import codec


def unpacked(pieces: list[bytes], *, encoding: str = "gzip", limit: int = 1_000_000) -> tuple[bytes, int]:
    """The body, and the most bytes that were held."""
    budget = Budget(10_000_000)

    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    body = asyncio.run(
        read_body(stream(), encoding=encoding, max_body_bytes=1_000_000, max_unpacked_bytes=limit, take=budget.take)
    )
    return body, budget.held


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(bounds)]


@given(st.lists(st.binary(max_size=2_000), min_size=1, max_size=4), st.lists(st.integers(0, 10_000), max_size=8))
def test_gzip_members_cut_anywhere_are_what_was_packed(members: list[bytes], places: list[int]) -> None:
    packed = b"".join(gzip.compress(member) for member in members)
    body, held = unpacked(cut(packed, places))
    assert body == b"".join(members)
    assert held == len(body)


@given(st.integers(1, 5_000), st.integers(1, 5_000), st.lists(st.integers(0, 10_000), max_size=5))
def test_what_unpacks_above_the_limit_is_refused_and_what_does_not_is_taken(
    size: int, limit: int, places: list[int]
) -> None:
    pieces = cut(gzip.compress(b"\0" * size), places)
    if size <= limit:
        assert len(unpacked(pieces, limit=limit)[0]) == size
        return
    with pytest.raises(Refusal) as caught:
        unpacked(pieces, limit=limit)
    assert caught.value.status == 413


@given(st.integers(0, 2_000), st.data())
def test_gzip_that_ends_early_is_refused(size: int, data: st.DataObject) -> None:
    packed = gzip.compress(bytes(range(256)) * (size // 256 + 1))
    short = packed[: data.draw(st.integers(1, len(packed) - 1))]
    with pytest.raises(Refusal) as caught:
        unpacked([short])
    assert (caught.value.status, caught.value.fault.reason) == (400, "damaged_gzip")


LINES = st.lists(
    st.one_of(st.integers(0, 99), st.sampled_from([b"", b" \t", b"{", b"[]", b"\xff", b'{"kind": "trace"}'])),
    max_size=12,
)


@given(LINES, st.sampled_from([b"\n", b"\r\n"]), st.booleans())
def test_each_line_is_looked_at_once_under_its_own_number(items: list[int | bytes], end: bytes, closed: bool) -> None:
    lines = [codec.encode(make_trace(item)) if isinstance(item, int) else item for item in items]
    body = end.join(lines) + (end if closed else b"")
    expected = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not expected:
        with pytest.raises(Refusal):
            read_lines(body, "lines", max_lines=100, max_record_bytes=10_000)
        return
    found = read_lines(body, "lines", max_lines=100, max_record_bytes=10_000)
    assert [line.number for line in found] == [number for number, _ in expected]
    for line, (_, data) in zip(found, expected, strict=True):
        if data.startswith(b'{"schema'):
            assert (line.data, line.faults) == (data, ())
            assert line.trace_id == json.loads(data)["trace_id"]
        else:
            assert line.faults


def test_nothing_is_unpacked_before_it_was_granted_and_nothing_stays_behind_a_refusal() -> None:
    """Many bombs at once would otherwise hold what one piece of each unpacks to, and keep it in their tracebacks."""
    granted: list[int] = []

    def take(size: int) -> None:
        granted.append(size)
        if sum(granted) > 1_000_000:
            raise MemoryError

    async def stream() -> AsyncIterator[bytes]:
        yield gzip.compress(b"\0" * 50_000_000, 9)  # one piece of 49 kB

    reading = read_body(stream(), encoding="gzip", max_body_bytes=10**6, max_unpacked_bytes=10**8, take=take)
    with pytest.raises(MemoryError) as caught:
        asyncio.run(reading)
    assert max(granted) <= 256 * 1024
    assert sum(granted) <= 1_000_000 + 256 * 1024
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    held = [value for frame in frames for value in frame.f_locals.values() if isinstance(value, bytes | bytearray)]
    assert sum(map(len, held)) <= 512 * 1024  # the piece as it came, and one step of it
