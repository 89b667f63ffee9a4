"""Evidence as JSON values within an event: numbers, ids and names, no texts of traces."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

from tracejudge.alerts import AlertEvent
from tracejudge.alerts.series.wording import rate_numbers
from tracejudge.comparing.paired import Estimate
from tracejudge.evidence.appeared import Appeared
from tracejudge.evidence.gather import Evidence
from tracejudge.evidence.measures import Measure
from tracejudge.evidence.resampled import Resampled
from tracejudge.evidence.standing_out import Finding, SlicedBy
from tracejudge.evidence.words import finding_says, looked_at_says, plain, record_says, resampled_says, slices_say

_MOST_FINDINGS: Final = 5
_MOST_ATTRIBUTES: Final = 12
_MOST_SLICES: Final = 8


def with_evidence(evidence: Evidence, *, page: str | None = None) -> AlertEvent:
    """The event with its evidence, under the same id. `page` is the link to a page about it."""
    found = {**evidence.event.evidence, **to_json(evidence)}
    if evidence.worst:
        found["worst_trace_ids"] = [one.trace_id for one in evidence.worst]
    if page is not None:
        found["page"] = page
    return replace(evidence.event, evidence=found)


def to_json(evidence: Evidence) -> dict[str, Any]:
    """The evidence as JSON values for an event, beside the detector's own numbers. Each part has `says`: a sentence for
    a person."""
    reading, record = evidence.reading, evidence.record
    return {
        "compared": {
            "says": looked_at_says(evidence),
            "before_from": evidence.before_from.isoformat(timespec="milliseconds"),
            "before": rate_numbers(evidence.before),
            "since": rate_numbers(evidence.since),
            "change": _estimate(evidence.change),
            "rows_before": evidence.rows_before,
            "rows_since": evidence.rows_since,
        },
        "slices": {
            "says": slices_say(evidence),
            "appeared": [_appeared(one) for one in evidence.appeared],
            "standing_out": [_finding(one) for one in evidence.findings[:_MOST_FINDINGS]],
            "looked_at": evidence.looked_at,
            "by": [_sliced(one) for one in evidence.sliced_by[:_MOST_ATTRIBUTES]],
            "too_many_values": [plain(name) for name in evidence.like_ids],
        },
        "retrieval_or_generation": {
            "verdict": reading.verdict,
            "says": reading.says,
            "by": reading.by,
            "retrieval": _estimate(reading.retrieval),
            "generation": _estimate(reading.generation),
            "traces": reading.traces,
            "measures": [_measure(one) for one in reading.measures],
            "without_passages": None
            if evidence.passages is None
            else {
                "before": evidence.passages.before,
                "since": evidence.passages.since,
                "change": _estimate(evidence.passages.change),
            },
        },
        "worst": [
            {
                "trace_id": one.trace_id,
                "at": one.at.isoformat(timespec="milliseconds"),
                "score": one.score,
                "weight": one.weight,
                "why": plain(one.why, limit=300),
            }
            for one in evidence.worst
        ],
        "false_alarms_measured": {
            "says": record_says(record, app=evidence.event.series.app),
            **asdict(record),
            "unjudged": record.unjudged,
        },
        **_played(evidence.resampled),
    }


def _played(played: Resampled | None) -> dict[str, Any]:
    return {} if played is None else {"false_alarms_resampled": {"says": resampled_says(played), **asdict(played)}}


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "says": finding_says(one),
        "attribute": plain(one.attribute),
        "value": plain(one.value),
        "kind": one.kind,
        "contribution": one.contribution,
        "low": one.low,
        "high": one.high,
        "share_of_change": one.share_of_change,
        "share_before": one.share_before,
        "share_since": one.share_since,
        "before": rate_numbers(one.before),
        "since": rate_numbers(one.since),
        "same_traces_as": [plain(name) for name in one.same_traces_as],
    }


def _appeared(one: Appeared) -> dict[str, Any]:
    return {
        "attribute": plain(one.attribute),
        "value": plain(one.value),
        "at": one.at.isoformat(timespec="milliseconds"),
        "since_at": one.since_at.isoformat(timespec="milliseconds"),
        "traces": one.traces,
        "of_traces": one.of_traces,
        "before": rate_numbers(one.before),
        "since": rate_numbers(one.since),
        "beside": rate_numbers(one.beside),
        "well_until": rate_numbers(one.well_until),
    }


def _sliced(one: SlicedBy) -> dict[str, Any]:
    parts = one.parts
    return {
        "attribute": plain(one.name),
        "change": parts.change,
        "within": _estimate(parts.within),
        "mix": _estimate(parts.mix),
        "new_or_gone": parts.new_or_gone,
        "values": [
            {
                "value": plain(part.value),
                "before": None if part.before is None else part.before.estimate,
                "since": None if part.since is None else part.since.estimate,
                "share_before": part.share_before,
                "share_since": part.share_since,
                "within": part.within,
                "mix": part.mix,
                "new_or_gone": part.new_or_gone,
            }
            for part in parts.slices[:_MOST_SLICES]
        ],
    }


def _measure(one: Measure) -> dict[str, Any]:
    return {
        "name": one.name,
        "before": one.before,
        "since": one.since,
        "change": _estimate(one.change),
        "traces": one.traces,
    }


def _estimate(one: Estimate | None) -> dict[str, float] | None:
    return None if one is None else {"value": one.value, "low": one.low, "high": one.high}
