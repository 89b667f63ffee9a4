"""Values that are made quickly are the frozen dataclasses they were."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from tracejudge.quick import made_quickly


@dataclass(frozen=True, slots=True)
class Plain:
    first: int
    second: str = "two"
    third: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    whole: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", f"{self.first} {self.second}")


@made_quickly
@dataclass(frozen=True, slots=True)
class Quick:
    first: int
    second: str = "two"
    third: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    whole: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", f"{self.first} {self.second}")


GIVEN: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, "zwei"), {}),
    ((), {"second": "deux", "first": 1}),
    ((1,), {"third": {"a": 1}}),
]


@pytest.mark.parametrize(("positional", "named"), GIVEN)
def test_the_fields_are_what_was_given(positional: tuple[Any, ...], named: dict[str, Any]) -> None:
    quick, plain = Quick(*positional, **named), Plain(*positional, **named)
    assert type(quick) is Quick
    assert repr(quick) == repr(plain).replace("Plain", "Quick")
    assert quick == Quick(*positional, **named)
    assert quick.whole == plain.whole


@pytest.mark.parametrize(
    ("positional", "named"), [((), {}), ((1, "two", {}), {}), ((1,), {"fourth": 4}), ((1,), {"first": 1})]
)
def test_what_the_dataclass_refuses_is_refused(positional: tuple[Any, ...], named: dict[str, Any]) -> None:
    for kind in (Quick, Plain):
        with pytest.raises(TypeError):
            kind(*positional, **named)


def test_it_is_frozen_from_the_moment_it_is_made() -> None:
    quick = Quick(1)
    with pytest.raises(FrozenInstanceError):
        quick.first = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del quick.second
    with pytest.raises((AttributeError, TypeError)):
        quick.other = 2  # type: ignore[attr-defined]


def test_copies_changes_and_pickles_are_the_dataclass_s_own() -> None:
    quick = Quick(1, third={"a": 1})
    assert replace(quick, second="zwei") == Quick(1, "zwei", third={"a": 1})
    assert copy.deepcopy(quick) == quick
    assert pickle.loads(pickle.dumps(quick)) == quick  # noqa: S301 - our own bytes
    assert Quick(1).third is not Quick(1).third
    assert hash(Quick(1, third=())) == hash(Quick(1, third=()))  # type: ignore[arg-type]


def test_its_signature_names_the_same_parameters() -> None:
    assert list(inspect.signature(Quick).parameters) == list(inspect.signature(Plain).parameters)


def test_a_class_without_slots_is_refused() -> None:
    @dataclass(frozen=True)
    class Loose:
        first: int

    with pytest.raises(TypeError, match="slots=True"):
        made_quickly(Loose)
