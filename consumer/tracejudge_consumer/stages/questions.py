"""Groups planned traces into questions: what a judge is asked in one call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tracejudge.errors import JudgeGone
from tracejudge.judging import JudgeTask
from tracejudge.scores import TraceKey
from tracejudge_consumer.stages.plan import PlannedTask

TOGETHER: Final = 32
"""Most traces in a question to a judge that calls a model. Large enough that a question's fixed cost, about that of one
trace, does not matter; small enough that one answered from a cache blocks the loop for some milliseconds only."""


@dataclass(frozen=True, slots=True)
class Question:
    """Traces for one or more judges. With `each` it is one judge, which answers about each trace separately."""

    planned: tuple[PlannedTask, ...]
    judges: frozenset[str]
    each: bool

    def tasks(self, planned: Sequence[PlannedTask]) -> list[JudgeTask]:
        """The tasks of `planned`, narrowed to the judges of this question."""
        tasks = []
        for one in planned:
            task, names = one.task, one.task.judge_names & self.judges
            tasks.append(task if names == task.judge_names else replace(task, judge_names=names))
        return tasks


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a question. `left`: traces that were not asked about, and that this consumer does not finish."""

    left: frozenset[TraceKey] = frozenset()
    gone: tuple[JudgeGone, ...] = ()  # judges that are gone (bad key, unknown model, no quota)


def questions(tasks: Sequence[PlannedTask], instant: Collection[str]) -> list[Question]:
    """The tasks as questions: one for all judges in `instant`, and of every other judge one per TOGETHER traces."""
    at_once: list[PlannedTask] = []
    of_judge: dict[str, list[PlannedTask]] = {}
    for one in tasks:
        names = one.task.judge_names
        if not names.isdisjoint(instant):
            at_once.append(one)
            names = names.difference(instant)
        for name in names:
            of_judge.setdefault(name, []).append(one)
    found = [Question(tuple(at_once), frozenset(instant), each=False)] if at_once else []
    for name in sorted(of_judge):
        some, judges = tuple(of_judge[name]), frozenset([name])
        found += [Question(some[n : n + TOGETHER], judges, each=True) for n in range(0, len(some), TOGETHER)]
    return found
