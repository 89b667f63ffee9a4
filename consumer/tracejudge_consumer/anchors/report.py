"""What the rounds of a judge over a set come to, as numbers and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tracejudge.anchors import AnchorRound, AnchorSet
from tracejudge.anchors.agreement import Agreement, agreement, pass_share, references
from tracejudge.anchors.movement import Movement, movement, movement_in_words
from tracejudge.counted import counted
from tracejudge.scores import JudgeId
from tracejudge.store import Store
from tracejudge_consumer.terminal.rendering import interval, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLine:
    """One round against the reference and against people."""

    round_at: datetime
    cause: str
    finished: bool
    invalid: int
    same: Agreement  # as the reference; of the first round nothing
    right: Agreement  # as the labels
    passes: Agreement
    model: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReport:
    """A judge's rounds, and how its last finished one compares with its reference. `moved` is None before there are two
    finished rounds."""

    judge_name: str
    judge_id: JudgeId
    heuristic: bool
    reference_at: datetime | None
    rounds: tuple[RoundLine, ...]
    last: RoundLine | None
    moved: Movement | None


def judge_report(
    store: Store, anchors: AnchorSet, judge_id: JudgeId, *, last: AnchorRound | None = None, limit: int = 30
) -> JudgeReport:
    """Read from the store; `last` is the round to compare, the last finished one by default."""
    rounds = store.anchors.rounds.of(anchors.set_id, judge_id, limit=limit)
    first = store.anchors.rounds.first(anchors.set_id, judge_id)
    reference = references(first)
    finished = [one for one in rounds if one.finished_at is not None]
    compared = last or (finished[-1] if finished else None)
    reference_at = first[0].round_at if first else None
    lines = tuple(_line(one, reference if one.round_at != reference_at else {}) for one in rounds)
    moved = None
    if compared is not None and reference_at is not None and compared.round_at > reference_at:
        moved = movement(reference, compared.settled)
    shown = next((line for line in lines if compared is not None and line.round_at == compared.round_at), None)
    known = compared or (rounds[-1] if rounds else None)
    return JudgeReport(
        judge_name=judge_id.rpartition("@")[0],
        judge_id=judge_id,
        heuristic=known.heuristic if known is not None else False,
        reference_at=reference_at,
        rounds=lines,
        last=shown,
        moved=moved,
    )


def judges_of(store: Store, anchors: AnchorSet) -> list[JudgeId]:
    """The JudgeIds that have judged the anchor set, in order."""
    return sorted({one.judge_id for one in store.anchors.rounds.of(anchors.set_id)})


def report_lines(report: JudgeReport) -> Iterator[str]:
    """In words, a line each."""
    last = report.last
    if last is None:
        yield "no finished round yet"
        return
    if report.moved is None:
        yield f"first round, to which later ones are compared; passes {_share(last.passes)} of the anchors"
    else:
        yield f"repeats its first verdict on {_share(last.same)} of {counted(last.same.n, 'anchor')}"
        yield movement_in_words(report.moved)
    if last.right.n:
        yield f"agrees with people on {_share(last.right)} of {counted(last.right.n, 'labelled anchor')}"
    if last.invalid:
        yield f"{counted(last.invalid, 'anchor')} could not be judged"


def _line(one: AnchorRound, reference: dict[str, bool]) -> RoundLine:
    settled = one.settled
    return RoundLine(
        round_at=one.round_at,
        cause=one.cause,
        finished=one.finished_at is not None,
        invalid=len(one.verdicts) - len(settled),
        same=agreement(settled, reference),
        right=agreement(settled, one.expected),
        passes=pass_share(settled),
        model=one.model_reported,
        fingerprint=one.fingerprint,
    )


def _share(one: Agreement) -> str:
    return f"{percent(one.value)} ({interval(one.low, one.high)})"
