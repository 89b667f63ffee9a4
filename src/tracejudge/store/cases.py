"""Verdicts on the answers that one version gave to known questions, by `case_id`: what pairs two pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tracejudge.scores import LIVE_RUN, JudgeId, Score, TraceKey
from tracejudge.store.connection import Connection
from tracejudge.store.queries import ScoreFilter, TraceFilter
from tracejudge.store.scores import Scores
from tracejudge.store.trace_filters import trace_conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseVerdicts:
    """The verdicts of one version and judge. A question that was asked several times counts with its latest judged
    answer."""

    cases: int  # questions that the version answered
    scores: Mapping[str, Score] = field(default_factory=dict)
    judge_ids: frozenset[JudgeId] = frozenset()
    places: frozenset[tuple[str, str]] = frozenset()  # environments and apps of all verdicts, the latest or not


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAnswer:
    """The latest answer that was given to a question."""

    key: TraceKey
    response: str


class Cases:
    """Read from `traces` and `scores`; memory grows with the number of cases, which is that of a dataset."""

    def __init__(self, connection: Connection, scores: Scores) -> None:
        self._connection = connection
        self._scores = scores

    def answers(self, where: TraceFilter) -> dict[str, CaseAnswer]:
        """The latest answer to each question among the traces of the filter; those without an answer do not count."""
        conditions = trace_conditions(where).add("isNotNull(case_id) AND case_id != ''")
        conditions.add("isNotNull(response) AND response != ''")
        rows = self._connection.query(
            "SELECT case_id, argMax((environment, app, trace_id, assumeNotNull(response)), (event_time, trace_id)) "
            f"FROM traces FINAL {conditions} GROUP BY case_id",
            conditions.parameters,
        )
        return {
            str(case): CaseAnswer(key=TraceKey(environment, app, trace_id), response=response)
            for case, (environment, app, trace_id, response) in rows
        }

    def verdicts(self, where: TraceFilter, *, judge: str, run_id: str = LIVE_RUN) -> CaseVerdicts:
        """The verdicts of a judge (a name or JudgeId) in a run on the traces of the filter that have a case."""
        conditions = trace_conditions(where).add("isNotNull(case_id) AND case_id != ''")
        rows = self._connection.query(
            f"SELECT environment, app, trace_id, case_id FROM traces FINAL {conditions}", conditions.parameters
        )
        case_of = {TraceKey(row[0], row[1], row[2]): str(row[3]) for row in rows}
        chosen = replace(ScoreFilter.within(where), judge=judge, run_id=run_id)
        latest: dict[str, Score] = {}
        places: set[tuple[str, str]] = set()
        for page in self._scores.stream(chosen) if case_of else ():
            for score in page:  # in the order of event time, so that a later answer takes the place
                if (case := case_of.get(score.key)) is not None:
                    latest[case] = score
                    places.add((score.environment, score.app))
        return CaseVerdicts(
            cases=len(set(case_of.values())),
            scores=latest,
            judge_ids=frozenset(score.judge_id for score in latest.values()),
            places=frozenset(places),
        )
