"""Whatever a service hands in becomes something JSON can hold."""

from __future__ import annotations

import enum
import json
import math
import uuid
from collections import OrderedDict, UserDict
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import numpy
import pytest

from tracejudge_sdk.json_values import check_json, coerce_json, safe_repr, scrub_text


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(str):
    def __str__(self) -> str:
        raise AssertionError("not asked")


class Nasty:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class NastyLength(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value", [None, True, 0, -5, 1.5, "", "é🙂", [], {}, [1, ["a", {"b": None}]], {"a": {"b": [1]}}]
)
def test_json_values_stay_as_they_are(value: Any) -> None:
    assert coerce_json(value) == (value, False)
    check_json(value)


def test_tuples_become_lists_without_loss() -> None:
    assert coerce_json({"a": (1, 2)}) == ({"a": [1, 2]}, False)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (math.nan, None),
        (math.inf, None),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc), "2026-01-02T03:04:05+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(minutes=2), 120.0),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ({2, "a"}, [2, "a"]),
        (b"\x00\xff", "\x00\\xff"),
        (bytearray("é".encode()), "é"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Word("w"), "w"),
        (uuid.UUID(int=5), "UUID('00000000-0000-0000-0000-000000000005')"),
        (Decimal("1.50"), "Decimal('1.50')"),
        (PurePosixPath("/a/b"), "PurePosixPath('/a/b')"),
        (numpy.float32(1.5), 1.5),
        (numpy.float64(0.25), 0.25),
        (numpy.int64(7), 7),
        (numpy.bool_(True), True),
        (numpy.float32("nan"), None),
        (numpy.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (numpy.str_("s"), "s"),
        (OrderedDict(a=1), {"a": 1}),
        (UserDict({"a": 1}), {"a": 1}),
        (Nasty(), "<Nasty: repr failed>"),
        ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
        ("a\ud800", "a�"),
        ({"\ud83d": "x"}, {"�": "x"}),
        (1 << 4000, "<int of 4001 bits>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_b18_odd_values_arrive_as_text_or_number_and_say_so(value: Any, plain: Any) -> None:
    found, lossy = coerce_json({"v": value})
    assert found == {"v": plain}
    assert lossy
    check_json(found)
    json.dumps(found, allow_nan=False).encode()


def test_b18_a_cycle_ends_where_it_closes() -> None:
    cycle: dict[str, Any] = {"a": 1}
    cycle["self"] = cycle
    assert coerce_json(cycle) == ({"a": 1, "self": "<cycle>"}, True)
    rows: list[Any] = []
    rows.append(rows)
    assert coerce_json(rows) == (["<cycle>"], True)


def test_the_same_value_twice_is_no_cycle() -> None:
    shared = {"x": 1}
    assert coerce_json([shared, shared]) == ([shared, shared], False)


def test_deep_and_wide_values_are_bounded() -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    found, lossy = coerce_json(deep)
    assert lossy
    assert json.dumps(found).count("[") == 8
    wide, lossy = coerce_json(list(range(5000)))
    assert lossy
    assert wide[-1] == "<4000 more>"
    assert len(wide) == 1001
    vector, lossy = coerce_json(numpy.zeros(4096))
    assert (vector, lossy) == ("<ndarray of 4096>", True)


def test_an_object_whose_methods_raise_is_named_by_its_type() -> None:
    assert coerce_json(NastyLength(a=1)) == ("<NastyLength>", True)


def test_a_copy_is_taken() -> None:
    inner = [1]
    found, _ = coerce_json({"a": inner})
    inner.append(2)
    assert found == {"a": [1]}


def test_a_repr_is_cut() -> None:
    class Long:
        def __repr__(self) -> str:
            return "x" * 100_000

    assert safe_repr(Long()) == "x" * 992 + "...[cut]"


def test_scrubbing_leaves_whole_characters_alone() -> None:
    assert scrub_text("a🙂\x00é") == "a🙂\x00é"
    assert scrub_text("\ud83d\ude42") == "🙂"
    assert scrub_text("\ude42\ud83d") == "��"
