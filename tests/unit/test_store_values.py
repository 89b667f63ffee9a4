"""Values on their way into columns: what is taken, what is refused and why."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tracejudge.scores import Outcome
from tracejudge.store import values
from tracejudge.store.values import RowRefused

UTC = timezone.utc


@pytest.mark.parametrize(
    ("convert", "value", "reason"),
    [
        (values.text, None, "ill_typed"),
        (values.text, 5, "ill_typed"),
        (values.real, "N/A", "ill_typed"),
        (values.real, True, "ill_typed"),
        (values.real, math.nan, "out_of_range"),
        (values.real, math.inf, "out_of_range"),
        (values.probability, 0.0, "out_of_range"),
        (values.probability, 1.5, "out_of_range"),
        (values.whole, 1.0, "ill_typed"),
        (values.whole, -1, "out_of_range"),
        (values.whole, 2**63, "out_of_range"),
        (values.flag, "maybe", "ill_typed"),
        (values.flag, 1, "ill_typed"),
        (values.microseconds, "2026-01-01", "ill_typed"),
        (values.microseconds, datetime(2026, 1, 1), "naive_datetime"),  # noqa: DTZ001
        (values.microseconds, datetime(1969, 12, 31, tzinfo=UTC), "out_of_range"),
        (values.microseconds, datetime(2200, 1, 1, tzinfo=UTC), "out_of_range"),
    ],
)
def test_what_a_column_cannot_hold_is_refused_with_its_reason(convert: Any, value: object, reason: str) -> None:
    with pytest.raises(RowRefused, match="field") as caught:
        convert("field", value)
    assert caught.value.reason == reason


def test_instants_are_exact_in_every_zone() -> None:
    at = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
    elsewhere = at.astimezone(timezone(timedelta(hours=-5)))
    assert values.microseconds("at", at) == values.microseconds("at", elsewhere)
    assert values.from_microseconds(values.microseconds("at", elsewhere)) == at
    assert values.from_milliseconds(values.milliseconds("at", at)) == at.replace(microsecond=123000)
    assert values.bound_instant("at", elsewhere) == "2026-01-01 12:00:00.123456"


def test_json_never_holds_nan_and_always_is_utf8() -> None:
    odd = {"nan": math.nan, "deep": [math.inf, {"x": -math.inf}], "when": datetime(2026, 1, 1, tzinfo=UTC), 1: {2}}
    assert json.loads(values.to_json("odd", odd)) == {
        "nan": None, "deep": [None, {"x": None}], "when": "2026-01-01T00:00:00+00:00", "1": [2],
    }  # fmt: skip
    lone = {"text": "a\ud800b"}
    values.to_json("lone", lone).encode()
    assert json.loads(values.to_json("lone", lone)) == lone
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(RowRefused):
        values.to_json("loop", loop)


def test_lone_surrogates_become_replacement_characters() -> None:
    assert values.text("t", "a\udfffb") == "a\ufffdb"
    assert values.text("t", "\U0001f600") == "\U0001f600"


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "b": 0.5, "c": None, "d": True, "e": "é漢", "f": [1, {"g": '\n"\\'}]},
        {"large": 2**70, "float": 1e22, "small": -5e-324, "zero": -0.0},
        {1: "one", None: "none"},
        {"not a number": float("nan"), "endless": float("-inf")},
        {"lone": "\ud800"},
        {"instant": datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc), "outcome": Outcome.PASSED},
    ],
)
def test_json_says_the_same_with_and_without_orjson(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("orjson", reason="without orjson there is one way only")
    quickly = json.loads(values.to_json("value", value))
    monkeypatch.setattr(values, "_quick_json", None)
    assert json.loads(values.to_json("value", value)) == quickly
