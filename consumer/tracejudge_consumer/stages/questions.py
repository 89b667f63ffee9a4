"""What is put to a judge in one piece, and what comes back about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tracejudge.errors import JudgeGone
from tracejudge.judging import JudgeTask
from tracejudge.scores import TraceKey
from tracejudge_consumer.stages.plan import PlannedTask

TOGETHER: Final = 32
"""Traces of one question to a judge that calls a model: what a question costs by itself is a trace's worth, and one
that is answered at once (by a cache) keeps the loop for no more than some milliseconds."""


@dataclass(frozen=True, slots=True)
class Question:
    """Traces that are put to one or more judges. `each`: one judge, which answers about each trace by itself."""

    planned: tuple[PlannedTask, ...]
    judges: frozenset[str]
    each: bool

    def tasks(self, planned: Sequence[PlannedTask]) -> list[JudgeTask]:
        """Those of `planned`, for the judges of this question alone."""
        tasks = []
        for one in planned:
            task, names = one.task, one.task.judge_names & self.judges
            tasks.append(task if names == task.judge_names else replace(task, judge_names=names))
        return tasks


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a question: the traces that were not asked about and are nobody's to finish here."""

    left: frozenset[TraceKey] = frozenset()
    gone: tuple[JudgeGone, ...] = ()  # judges that answer nobody


def questions(tasks: Sequence[PlannedTask], instant: Collection[str]) -> list[Question]:
    """The tasks as questions: one for all that is instant, and for each other judge one for every few traces."""
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
