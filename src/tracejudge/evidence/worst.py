"""The answers to look at first: failed since the fall, in the slice that explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tracejudge.evidence.standing_out import Finding
from tracejudge.store import JudgedRow


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstTrace:
    """One failed trace and why it is here, in numbers and names: no text of the trace."""

    trace_id: str
    at: datetime
    score: float
    weight: float
    why: str


def worst_traces(
    rows: Sequence[JudgedRow], finding: Finding | None, *, judges: Sequence[str] = (), limit: int = 5
) -> tuple[WorstTrace, ...]:
    """The lowest scores first; among equals what stands for more traffic, then the latest. One of each content.

    Only where fewer than `limit` failed in the slice of the finding do others follow. `judges` are other judges whose
    failing verdict is part of the reason.
    """
    failed = [row for row in rows if not row.passed]
    failed.sort(
        key=lambda row: (not _in(row, finding), row.score, -row.weight, -row.event_time.timestamp(), row.trace_id)
    )
    chosen: dict[str, JudgedRow] = {}
    for row in failed:
        chosen.setdefault(row.content_hash or row.trace_id, row)
        if len(chosen) == limit:
            break
    return tuple(
        WorstTrace(
            trace_id=row.trace_id,
            at=row.event_time,
            score=row.score,
            weight=row.weight,
            why="; ".join(_reasons(row, finding, judges)),
        )
        for row in chosen.values()
    )


def _in(row: JudgedRow, finding: Finding | None) -> bool:
    return finding is None or row.fields.get(finding.attribute, "") == finding.value


def _reasons(row: JudgedRow, finding: Finding | None, judges: Sequence[str]) -> list[str]:
    said = [f"failed with score {row.score:.2f}"]
    if row.weight > 1.005:
        said.append(f"stands for {row.weight:.3g} traces")
    if finding is not None and _in(row, finding):
        said.append(f"{finding.attribute} {finding.value or '(none)'}")
    said += [f"also failed by {judge}" for judge in judges if row.others.get(judge) is False]
    signals = row.signals
    if signals.get("node_count") == 0:
        said.append("nothing was retrieved")
    elif signals.get("has_context") is False:
        said.append("no passage with text")
    overlap = signals.get("lexical_overlap")
    if isinstance(overlap, float | int):
        said.append(f"{round(100 * overlap)} % of its words occur in the passages")
    if signals.get("refusal") is True:
        said.append("reads like a refusal")
    return said
