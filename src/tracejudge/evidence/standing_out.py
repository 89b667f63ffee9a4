"""Which slices explain a fall: those that fell while the rest did not, or by more than the rest, beyond chance.

A slice stands out when two intervals lie below zero: that of its own change, and that of its change minus the change of
all the rest. Without the second, a fall of everything would "stand out" in every slice with enough traces. Both are at
1 - 0.05 / m for the m slices looked at (Bonferroni), so that in a fall that has no cause among them one is named by
chance in at most one alert of twenty. Changes have Newcombe's interval on effective sample sizes; the difference of two
changes has theirs added in squares (Zou & Donner 2008, MOVER).

A slice that is new since the fall, or all but new (the start of a fall is an estimate, and a release may begin minutes
before it), is held against the rate before it and against the rest since. A shift of the mix
stands out when its interval lies below zero and it makes up at least a quarter of the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Final, Literal

from tracejudge.comparing.decomposition import Decomposition, SlicePart, decompose
from tracejudge.comparing.paired import Estimate
from tracejudge.comparing.unpaired import difference
from tracejudge.evidence.slicing import OTHER, Attribute
from tracejudge.scores import Bucket
from tracejudge.store import JudgedRow
from tracejudge.windows import PassRate, pass_rate

MIN_SAMPLES: Final = 5.0
"""Effective samples of a slice, in each period it is in, below which nothing is said of it."""

LEVEL: Final = 0.05
_MIX_PART: Final = 0.25
_SAME: Final = 0.9  # of the traces of two slices: they are one and the same
_ALL_BUT_NEW: Final = 0.1  # of its later share of the traffic

Kind = Literal["within", "new", "mix"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A slice that explains a part of the fall.

    `kind`: "within" (its rate fell), "new" (it is there only since the fall, and worse), "mix" (traffic moved between
    the slices of the attribute; `value` is the one that cost most). `contribution` is its part of the change, `low` and
    `high` its simultaneous interval given the shares; `strength` orders findings.
    """

    attribute: str
    value: str
    kind: Kind
    contribution: float
    low: float
    high: float
    share_of_change: float
    before: PassRate | None
    since: PassRate | None
    share_before: float
    share_since: float
    strength: float
    same_traces_as: tuple[str, ...] = ()  # other findings, as "attribute=value", of nearly the same traces


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedBy:
    """One attribute with the change split by it."""

    name: str
    parts: Decomposition


def split(attributes: Iterable[Attribute]) -> list[SlicedBy]:
    """The change split by each attribute."""
    found = []
    for one in attributes:
        parts = decompose(one.before, one.since)
        if parts is not None:
            found.append(SlicedBy(name=one.name, parts=parts))
    return found


def standing_out(attributes: Iterable[Attribute]) -> tuple[list[Finding], int]:
    """The findings that stand out, the strongest first, and how many slices and mixes were looked at."""
    held = [(one, parts) for one in attributes if (parts := decompose(one.before, one.since)) is not None]
    tested = [(one, parts, part) for one, parts in held for part in parts.slices if _testable(part)]
    looked_at = len(tested) + len(held)
    if not looked_at:
        return [], 0
    confidence = 1.0 - LEVEL / looked_at
    found = [
        finding
        for one, parts, part in tested
        if (finding := _slice(one, part, change=parts.change, confidence=confidence)) is not None
    ]
    found += [finding for one, _ in held if (finding := _mix(one, confidence)) is not None]
    found.sort(key=lambda finding: (-finding.strength, finding.attribute, finding.value))
    return found, looked_at


def mix_of(findings: Sequence[Finding]) -> str | None:
    """The attribute whose mix explains more than half of the change, where that is the strongest finding."""
    first = findings[0] if findings else None
    return first.attribute if first is not None and _mostly_mix(first) else None


def mix_first(findings: Sequence[Finding]) -> list[Finding]:
    """The findings in the order in which they are shown: a mix that explains more than half of the change comes before
    a finding that is stronger only by being more certain."""
    return sorted(findings, key=lambda finding: not _mostly_mix(finding))


def mix_leads(findings: Sequence[Finding]) -> bool:
    """Whether a mix explains more than half of the change."""
    return any(map(_mostly_mix, findings))


def _mostly_mix(finding: Finding) -> bool:
    return finding.kind == "mix" and finding.share_of_change > 0.5


def without_copies(findings: Sequence[Finding], rows: Sequence[JudgedRow]) -> list[Finding]:
    """Findings about nearly the same traces as a stronger one become a remark on it."""
    kept: list[tuple[Finding, frozenset[int]]] = []
    for one in findings:
        places = frozenset(k for k, row in enumerate(rows) if row.fields.get(one.attribute, "") == one.value)
        for number, (other, held) in enumerate(kept):
            if one.kind == other.kind and len(places & held) >= _SAME * len(places | held):
                same = (*other.same_traces_as, f"{one.attribute}={one.value or '(none)'}")
                kept[number] = (replace(other, same_traces_as=same), held)
                break
        else:
            kept.append((one, places))
    return [one for one, _ in kept]


def _testable(part: SlicePart) -> bool:
    if part.value == OTHER or part.since is None or part.since.n_eff < MIN_SAMPLES:
        return False
    return _is_new(part) or (part.before is not None and part.before.n_eff >= MIN_SAMPLES)


def _is_new(part: SlicePart) -> bool:
    if part.before is None:
        return True
    return part.before.n_eff < MIN_SAMPLES and part.share_before < _ALL_BUT_NEW * part.share_since


def _slice(one: Attribute, part: SlicePart, *, change: float, confidence: float) -> Finding | None:
    """The finding about one slice, or None."""
    if change >= 0.0:
        return None
    rest_before, rest_since = _rest(one.before, part.value), _rest(one.since, part.value)
    new = _is_new(part)
    own = difference(part.since, _all(one.before) if new else part.before, confidence=confidence)
    if own is None or own.high >= 0.0:
        return None
    beyond: Estimate | None
    if new:
        beyond = difference(part.since, rest_since, confidence=confidence)
    else:
        beyond = _minus(own, difference(rest_since, rest_before, confidence=confidence))
    if beyond is not None and beyond.high >= 0.0:
        return None
    told = beyond or own
    scale = part.share_since if new else (part.share_before + part.share_since) / 2.0
    return Finding(
        attribute=one.name,
        value=part.value,
        kind="new" if new else "within",
        contribution=scale * own.value,
        low=scale * own.low,
        high=scale * own.high,
        share_of_change=scale * own.value / change,
        before=part.before,
        since=part.since,
        share_before=part.share_before,
        share_since=part.share_since,
        strength=-told.value / max(told.high - told.value, 1e-9),
    )


def _mix(one: Attribute, confidence: float) -> Finding | None:
    parts = decompose(one.before, one.since, confidence=confidence)
    if parts is None or parts.change >= 0.0:
        return None
    mix = parts.mix
    if mix.high >= 0.0 or mix.value > _MIX_PART * parts.change:
        return None
    cost = min(parts.slices, key=lambda part: (part.mix, part.value))
    return Finding(
        attribute=one.name,
        value=cost.value,
        kind="mix",
        contribution=mix.value,
        low=mix.low,
        high=mix.high,
        share_of_change=mix.value / parts.change,
        before=cost.before,
        since=cost.since,
        share_before=cost.share_before,
        share_since=cost.share_since,
        strength=-mix.value / max(mix.high - mix.value, 1e-9),
    )


def _minus(one: Estimate, other: Estimate | None) -> Estimate | None:
    if other is None:
        return None
    value = one.value - other.value
    return Estimate(
        value=value,
        low=value - hypot(one.value - one.low, other.high - other.value),
        high=value + hypot(one.high - one.value, other.value - other.low),
    )


def _rest(buckets: Mapping[str, Bucket], value: str) -> PassRate | None:
    return _all({name: bucket for name, bucket in buckets.items() if name != value})


def _all(buckets: Mapping[str, Bucket]) -> PassRate | None:
    return pass_rate({"": sum(buckets.values(), Bucket())})
