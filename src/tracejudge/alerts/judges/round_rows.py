"""A round of anchors as rows of a series, in an order that no judge and no anchor can have a say in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from tracejudge.anchors import AnchorRound
from tracejudge.scores import Outcome, Score


def round_rows(one: AnchorRound, right: Mapping[str, bool]) -> list[Score]:
    """The round as rows of a series: passed where the verdict is `right`."""
    draw = one.round_at.isoformat()
    cases = sorted(one.verdicts.keys() & right.keys(), key=lambda case: (_settled(one, case), digest_of(draw, case)))
    return [_row(one, case, _outcome(one.verdicts[case].passed, right[case])) for case in cases]


def nothing_yet(one: AnchorRound) -> Score:
    """The row of a round of which nothing can be compared: time passes by it."""
    return _row(one, "", Outcome.INVALID)


def digest_of(*parts: str) -> str:
    """128 bits in hexadecimal by which rounds, anchors and snapshots are told apart."""
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _row(one: AnchorRound, case: str, outcome: Outcome) -> Score:
    return Score(
        environment="",
        app="",
        version="",
        category="",
        trace_id=case,
        event_time=one.round_at,
        judge_name=one.judge_name,
        judge_id=one.judge_id,
        outcome=outcome,
        score=None,
        flags=("heuristic",) if one.heuristic else (),
        judged_at=one.finished_at or one.round_at,
    )


def _settled(one: AnchorRound, case: str) -> bool:
    return one.verdicts[case].passed is not None


def _outcome(passed: bool | None, right: bool) -> Outcome:
    if passed is None:
        return Outcome.INVALID
    return Outcome.PASSED if passed == right else Outcome.FAILED
