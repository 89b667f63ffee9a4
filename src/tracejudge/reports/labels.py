"""What judges are called in a table: by name, and in full where two of one name stand in it, as from an adoption on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from tracejudge.scores import JudgeId, Score


class OfJudge(Protocol):
    """A line of a table that is of one judge."""

    @property
    def judge_id(self) -> JudgeId: ...

    @property
    def heuristic(self) -> bool: ...


def judge_labels(lines: Iterable[OfJudge]) -> dict[JudgeId, str]:
    """By JudgeId, for the lines of one table."""
    return _labels((line.judge_id, line.heuristic) for line in lines)


def score_labels(scores: Iterable[Score]) -> dict[JudgeId, str]:
    """By JudgeId, for scores that are shown together."""
    return _labels((score.judge_id, "heuristic" in score.flags) for score in scores)


def _labels(judges: Iterable[tuple[JudgeId, bool]]) -> dict[JudgeId, str]:
    heuristic: dict[JudgeId, bool] = {}
    for judge_id, is_one in judges:
        heuristic[judge_id] = is_one or heuristic.get(judge_id, False)
    often = Counter(map(_name, heuristic))
    return {
        judge_id: (judge_id if often[_name(judge_id)] > 1 else _name(judge_id)) + (" (heuristic)" if is_one else "")
        for judge_id, is_one in heuristic.items()
    }


def _name(judge_id: JudgeId) -> str:
    return judge_id.partition("@")[0]
