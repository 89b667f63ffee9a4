"""The mix of traffic of two releases: their sums by the values of a field, and whether another mix explains a
difference of their totals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from tracejudge.comparing.decomposition import decompose
from tracejudge.comparing.paired import Estimate
from tracejudge.comparing.standardised import LEAST_COMPARED, Standardised
from tracejudge.scores import Bucket, JudgeId
from tracejudge.store import RateQuery, Store

MOST_TAGS: Final = 5
"""Tags looked at, those of most traces first: each is a reading of the window."""

MOST_VALUES: Final = 100
"""A tag with more values is more like an id."""

_EXPLAINS: Final = 0.25
"""Of the difference, or of the drop that would be accepted where that is larger: what the mix must explain."""

_LEVEL: Final = 0.05


Judge: TypeAlias = Callable[[Mapping[str, Bucket], Mapping[str, Bucket]], Standardised]
"""Compares a new and an old side within slices."""


class Sums(NamedTuple):
    """The sums of both releases by the values of a field, for one judge."""

    new: Mapping[str, Bucket]
    old: Mapping[str, Bucket]


NO_SUMS: Final = Sums({}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class MixShift:
    """A field whose mix differs and explains a part of the difference. `value` is the slice whose share moved most;
    `within` the difference within the field's values."""

    field: str
    value: str
    share_old: float
    share_new: float
    explained: float  # of the difference of the totals; a share, as rates are
    within: Standardised


def sums_by(store: Store, query: RateQuery, field: str, *, new: str, old: str, exact: bool) -> dict[JudgeId, Sums]:
    """The sums of the versions `new` and `old` by the values of `field`, for every judge."""
    asked = replace(query, version=None, step_s=None, group_by=("version", field))
    found: dict[JudgeId, tuple[dict[str, Bucket], dict[str, Bucket]]] = {}
    for row in store.scores.buckets(asked, one_per_content=exact):
        if (version := row.group["version"]) in (new, old):
            sides = found.setdefault(row.judge_id, ({}, {}))
            side, value = sides[version == old], row.group[field]
            side[value] = side.get(value, Bucket()) + row.bucket
    return {judge_id: Sums(*sides) for judge_id, sides in found.items()}


def fields_of_mix(store: Store, query: RateQuery, *, exact: bool) -> tuple[str, ...]:
    """By what the mix is looked at: the category, and where every row is read, language and the commonest tags.

    Not by model, prompt or index: these are the release's own, not its traffic's.
    """
    if not exact:
        return ("category",)
    tags = store.traffic.tags(query, limit=MOST_TAGS, most_values=MOST_VALUES)
    fields = ("category", "language", *(f"tags.{name}" for name in tags))
    return tuple(name for name in fields if name not in query.also)


def mix_shift(
    sums: Mapping[str, Sums],
    difference: Estimate,
    *,
    allowed_drop: float,
    judge: Judge,
) -> MixShift | None:
    """The field (of those that `sums` is of) whose mix explains most of the totals' difference, beyond chance and by
    more than a quarter of it; None where there is none.

    `judge` compares two sides within slices. What the mix does is told from chance by Kitagawa's split, at 1 - 0.05 / m
    for m fields.
    """
    found = []
    for field, one in sums.items():
        within = judge(one.new, one.old)
        if within.result.difference is None or within.compared < LEAST_COMPARED:
            continue
        explained = difference.value - within.result.difference.value
        if abs(explained) <= _EXPLAINS * max(abs(difference.value), allowed_drop):
            continue
        parts = decompose(one.old, one.new, confidence=1.0 - _LEVEL / len(sums))
        if parts is None or parts.between.low <= 0.0 <= parts.between.high:
            continue
        # Rounded: of two values one's gain is the other's loss, and the last digit must not choose.
        moved = max(parts.slices, key=lambda part: round(abs(part.share_since - part.share_before), 9))
        found.append(
            MixShift(
                field=field,
                value=moved.value,
                share_old=moved.share_before,
                share_new=moved.share_since,
                explained=explained,
                within=within,
            )
        )
    return max(found, key=lambda one: abs(one.explained), default=None)
