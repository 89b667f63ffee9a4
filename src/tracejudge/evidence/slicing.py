"""Rows of judged traces cut by everything the traces say about themselves, within bounds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tracejudge.scores import Bucket
from tracejudge.store import JudgedRow

MOST_VALUES: Final = 20
"""Of an attribute, those with the most weight; the others are one slice together."""

MOST_TAGS: Final = 12
"""Names of tags looked at, those of most traces first: a service may send 64."""

OTHER: Final = "(other)"
_COVERED: Final = 0.5  # of the weight by the values kept; below it the attribute is more like an id


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One thing that traces say about themselves, as sums by its values in both periods."""

    name: str
    before: Mapping[str, Bucket]
    since: Mapping[str, Bucket]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What could be sliced by, and what could not: names with too many values."""

    attributes: tuple[Attribute, ...]
    like_ids: tuple[str, ...]


def bucket_of(rows: Iterable[JudgedRow]) -> Bucket:
    """The sums of rows, with equal content of an hour as one observation of the summed weight."""
    return sums_by(rows, None).get("", Bucket())


def sums_by(rows: Iterable[JudgedRow], values: Mapping[int, str] | None) -> dict[str, Bucket]:
    """The sums of rows by a value each (by the row's place), or all under "" where there are none.

    Rates are those of all rows; the squares of weights, and so the intervals, are those of observations: a popular
    question is not forty of them.
    """
    seen: dict[tuple[str, object], list[float]] = {}
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for place, row in enumerate(rows):
        value = "" if values is None else values[place]
        one = seen.setdefault((value, row.observation), [0.0, 0.0])
        one[0] += row.weight
        counts[value][0] += 1
        if row.passed:
            one[1] += row.weight
            counts[value][1] += 1
    added: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for (value, _), (w, wx) in seen.items():
        sums = added[value]
        sums[0] += w
        sums[1] += w * w
        sums[2] += wx
        sums[3] += w * wx
    return {
        value: Bucket(n=counts[value][0], passed=counts[value][1], sum_w=w, sum_w2=w2, sum_wx=wx, sum_w2x=w2x)
        for value, (w, w2, wx, w2x) in added.items()
    }


def cut(before: Sequence[JudgedRow], since: Sequence[JudgedRow], *, without: frozenset[str] = frozenset()) -> Cut:
    """The attributes by which traces differ, except those that a rule has fixed already (`without`)."""
    attributes, like_ids = [], []
    for name in _names([*before, *since]):
        if name in without:
            continue
        weights: Counter[str] = Counter()
        for row in (*before, *since):
            weights[row.fields.get(name, "")] += row.weight  # type: ignore[assignment]
        if len(weights) < 2:
            continue
        kept = {value for value, _ in weights.most_common(MOST_VALUES)}
        if sum(weights[value] for value in kept) < _COVERED * sum(weights.values()):
            like_ids.append(name)
            continue
        attributes.append(
            Attribute(name=name, before=_by_value(before, name, kept), since=_by_value(since, name, kept))
        )
    return Cut(attributes=tuple(attributes), like_ids=tuple(like_ids))


def value_of(row: JudgedRow, name: str, kept: Iterable[str]) -> str:
    """The slice a row is in."""
    value = row.fields.get(name, "")
    return value if value in kept else OTHER


def _by_value(rows: Sequence[JudgedRow], name: str, kept: set[str]) -> dict[str, Bucket]:
    return sums_by(rows, {place: value_of(row, name, kept) for place, row in enumerate(rows)})


def _names(rows: Sequence[JudgedRow]) -> list[str]:
    counted: Counter[str] = Counter(name for row in rows for name in row.fields)
    tags = [name for name, _ in counted.most_common() if name.startswith("tags.")][:MOST_TAGS]
    return sorted(name for name in counted if not name.startswith("tags.")) + sorted(tags)
