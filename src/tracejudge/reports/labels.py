"""What judges are called in a table: by name, and in full where two of one name stand in it, as from an adoption on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tracejudge.reports.rates import RateLine
from tracejudge.scores import JudgeId


def judge_labels(lines: Iterable[RateLine]) -> dict[JudgeId, str]:
    """By JudgeId, for the lines of one table."""
    ids = {line.judge_id: line for line in lines}
    often = Counter(line.judge_name for line in ids.values())
    return {
        judge_id: (judge_id if often[line.judge_name] > 1 else line.judge_name)
        + (" (heuristic)" if line.heuristic else "")
        for judge_id, line in ids.items()
    }
