"""What judges are called in a table."""

from __future__ import annotations

from datetime import timedelta

from tracejudge.reports import RateLine, judge_labels
from tracejudge.scores import JudgeId
from tracejudge.testing.builders import START
from tracejudge.windows import Window


def line(judge_id: str, *, heuristic: bool = False) -> RateLine:
    return RateLine(
        window=Window(START, START + timedelta(hours=1)),
        judge_name=judge_id.partition("@")[0],
        judge_id=JudgeId(judge_id),
        group={},
        heuristic=heuristic,
        rate=None,
    )


def test_a_judge_has_its_name_and_two_of_one_name_are_told_apart() -> None:
    old, new, other = line("faithful@0123"), line("faithful@4567"), line("lexical@89ab", heuristic=True)
    assert judge_labels([old, old, other]) == {old.judge_id: "faithful", other.judge_id: "lexical (heuristic)"}
    assert judge_labels([old, new, other]) == {
        old.judge_id: "faithful@0123",
        new.judge_id: "faithful@4567",
        other.judge_id: "lexical (heuristic)",
    }
