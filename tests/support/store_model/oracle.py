"""The truth about a store, in plain dictionaries and written from the rules' words, not from the store's code."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from tests.support.store_model.operations import ADOPTED_AT, TRACES, USERS, served_by
from tracejudge.scores import LIVE_RUN, Decision, JudgeCall, Label, LedgerRow, Outcome, Score, TraceKey
from tracejudge.store import StoredFeedback, StoredTrace

ScoreKey = tuple[TraceKey, datetime, str, str]


class Oracle:
    """What is stored, after whatever was delivered."""

    def __init__(self) -> None:
        self.event_times: dict[TraceKey, datetime] = {}
        self.traces: dict[TraceKey, StoredTrace] = {}
        self.scores: dict[ScoreKey, Score] = {}
        self.decisions: dict[ScoreKey, LedgerRow] = {}
        self.labels: dict[tuple[TraceKey, str, str], Label] = {}
        self.feedback: dict[tuple[TraceKey, str], StoredFeedback] = {}
        self.calls: dict[str, JudgeCall] = {}
        self.forgotten: set[tuple[str, str]] = set()
        self.refused: list[Score] = []

    # ------------------------------------------------------------------ what is put in

    def is_forgotten(self, key: TraceKey, user_id: str | None = None) -> bool:
        return ("trace", key.trace_id) in self.forgotten or ("user", user_id or "") in self.forgotten

    def add_traces(self, values: Iterable[StoredTrace]) -> None:
        for value in values:
            fixed = self.event_times.setdefault(value.key, value.trace.event_time)
            new = replace(value, trace=value.trace.model_copy(update={"event_time": fixed}))
            old = self.traces.get(value.key)
            if old is None or _trace_wins(new, old):
                self.traces[value.key] = new

    def add_scores(self, values: Iterable[Score]) -> None:
        for value in values:
            new = _sound(value)
            key = (new.key, new.event_time, new.judge_id, new.run_id)
            old = self.scores.get(key)
            if old is None or _score_wins(new, old):
                self.scores[key] = new

    def add_decisions(self, values: Iterable[LedgerRow]) -> None:
        for value in values:
            key = (
                TraceKey(value.environment, value.app, value.trace_id),
                value.event_time,
                value.judge_id,
                value.run_id,
            )
            old = self.decisions.get(key)
            if old is None or _decision_wins(value, old):
                self.decisions[key] = value

    def add_labels(self, values: Iterable[Label]) -> None:
        for value in values:
            key = (TraceKey(value.environment, value.app, value.trace_id), value.criterion, value.source)
            if key not in self.labels or self.labels[key].labelled_at < value.labelled_at:
                self.labels[key] = value

    def add_feedback(self, values: Iterable[StoredFeedback]) -> None:
        for value in values:
            said = value.feedback
            key = (TraceKey(said.environment, said.app, said.trace_id), said.feedback_id)
            if key not in self.feedback or self.feedback[key].ingested_at > value.ingested_at:
                self.feedback[key] = value

    def add_calls(self, values: Iterable[JudgeCall]) -> None:
        self.calls |= {value.call_id: value for value in values}

    def forget(self, kind: str, value: str) -> None:
        self.forgotten.add((kind, value))
        gone = {key for key in self.all_keys() if kind == "trace" and key.trace_id == value}
        if kind == "user":
            gone = {key for key, stored in self.traces.items() if stored.trace.user_id == value}
            self.forgotten |= {("trace", key.trace_id) for key in gone}
        kept: list[LedgerRow] = []
        for rows in (self.scores, self.decisions):
            for key, row in rows.items():
                if key[0] in gone and row.run_id == LIVE_RUN:
                    kept.append(_remembered(row))
        self.scores = {key: row for key, row in self.scores.items() if key[0] not in gone}
        self.decisions = {key: row for key, row in self.decisions.items() if key[0] not in gone}
        for table in (self.traces, self.event_times):
            for one in gone & table.keys():
                del table[one]
        self.labels = {key: row for key, row in self.labels.items() if key[0] not in gone}
        self.feedback = {key: row for key, row in self.feedback.items() if key[0] not in gone}
        named = {key.trace_id for key in gone} | ({value} if kind == "trace" else set())
        self.refused = [row for row in self.refused if row.trace_id not in named]
        for row in kept:
            key = (TraceKey(row.environment, row.app, row.trace_id), row.event_time, row.judge_id, row.run_id)
            self.decisions[key] = row

    def all_keys(self) -> set[TraceKey]:
        judged = {key[0] for key in (*self.scores, *self.decisions)}
        said = {key[0] for key in self.labels} | {key[0] for key in self.feedback}
        return judged | said | self.traces.keys()

    # ------------------------------------------------------------------ what readers must say

    def live(self) -> list[Score]:
        return [score for score in self.scores.values() if score.run_id == LIVE_RUN]

    def counted(self) -> list[Score]:
        """Live scores that enter rates: of a name with several JudgeIds the one that was live when it was served."""
        chosen: dict[tuple[TraceKey, datetime, str], Score] = {}
        for score in self.live():
            key = (score.key, score.event_time, score.judge_name)
            if key not in chosen or _reading(score) < _reading(chosen[key]):
                chosen[key] = score
        return list(chosen.values())

    def stands(self, key: ScoreKey) -> bool:
        """A decision that no score of the same judge and run has overtaken."""
        return key not in self.scores

    def equation(self) -> dict[str, Counter[str]]:
        """By judge name: what became of each trace it answers for."""
        names = {score.judge_name for score in self.live()}
        names |= {row.judge_name for row in self.decisions.values() if row.run_id == LIVE_RUN}
        lines: dict[str, Counter[str]] = {}
        for name in names | {"lexical"}:  # adopted: it answers even before it has decided anything
            fates: dict[tuple[TraceKey, datetime], tuple[Any, ...]] = {
                (key, stored.trace.event_time): (5,) for key, stored in self.traces.items()
            }
            for score in self.live():
                if score.judge_name == name:
                    rank = 0 if score.outcome.settled else 1
                    _better(
                        fates, (score.key, score.event_time), (rank, score.judged_at, score.judge_id, score.outcome)
                    )
            for (trace, at, judge_id, run_id), row in self.decisions.items():
                if row.judge_name == name and run_id == LIVE_RUN:
                    rank = {Decision.UNDECIDED: 3, Decision.INCOMPLETE: 4}.get(row.decision, 2)
                    _better(fates, (trace, at), (rank, row.decided_at, judge_id, row.decision))
            lines[name] = Counter("unaccounted" if fate[0] == 5 else str(fate[3].value) for fate in fates.values())
        return {name: line for name, line in lines.items() if line}


def sums(scores: Iterable[Score], by: Callable[[Score], Any]) -> dict[Any, tuple[float, ...]]:
    """Counts and weighted sums as a bucket holds them."""
    found: dict[Any, list[float]] = {}
    for score in scores:
        total = found.setdefault(by(score), [0.0] * 8)
        if score.outcome is Outcome.INVALID:
            total[2] += 1
            continue
        weight, passed = 1 / score.inclusion_probability, score.outcome is Outcome.PASSED
        for index, value in enumerate((1, passed, 0, weight, weight**2, weight * passed, weight**2 * passed)):
            total[index] += value
        total[7] += weight * (score.score or 0.0)
    return {key: tuple(total) for key, total in found.items()}


def worst_order(score: Score) -> tuple[Any, ...]:
    return (score.score, -score.event_time.timestamp(), score.trace_id)


def everyone() -> list[tuple[str, str, TraceKey]]:
    """Every id that may be asked for, and the key of a trace that it names."""
    keys = [TraceKey(served_by(i)["environment"], served_by(i)["app"], f"t-{i:06d}") for i in range(TRACES)]
    users = [f"u{number}" for number in range(USERS)]
    return [
        *(("trace", key.trace_id, key) for key in keys),
        *(("user", user, TraceKey("any", "any", f"a new one of {user}")) for user in users),
    ]


def _sound(score: Score) -> Score:
    number = score.score
    if score.outcome is Outcome.INVALID:
        return replace(score, score=None)
    if number is None or not math.isfinite(number) or not 0 <= number <= 1:
        return replace(score, outcome=Outcome.INVALID, score=None, reason="out_of_range")
    return score


def _trace_wins(new: StoredTrace, old: StoredTrace) -> bool:
    """A complete one beats an incomplete one, then the first stored stands."""
    complete, was_complete = new.trace.status != "incomplete", old.trace.status != "incomplete"
    return complete > was_complete if complete != was_complete else new.ingested_at < old.ingested_at


def _score_wins(new: Score, old: Score) -> bool:
    """A higher revision, else settled, else the earlier one."""
    if new.revision != old.revision:
        return new.revision > old.revision
    if new.outcome.settled != old.outcome.settled:
        return new.outcome.settled
    return new.judged_at < old.judged_at


def _decision_wins(new: LedgerRow, old: LedgerRow) -> bool:
    """A final decision, else undecided, else incomplete; of equals the latest."""
    strength = {Decision.INCOMPLETE: 0, Decision.UNDECIDED: 1}
    a, b = strength.get(new.decision, 2), strength.get(old.decision, 2)
    return a > b if a != b else new.decided_at > old.decided_at


def _reading(score: Score) -> tuple[Any, ...]:
    live = {"lexical": "lexical@1" if score.event_time < ADOPTED_AT else "lexical@2"}.get(score.judge_name)
    return (live is not None and score.judge_id != live, score.judged_at, score.judge_id)


def _better(fates: dict[Any, tuple[Any, ...]], key: Any, fate: tuple[Any, ...]) -> None:
    if key not in fates or fate[:3] < fates[key][:3]:
        fates[key] = fate


def _remembered(row: Score | LedgerRow) -> LedgerRow:
    return LedgerRow(
        environment=row.environment,
        app=row.app,
        version=row.version,
        category=row.category,
        trace_id=sha256(f"tracejudge:trace:{row.trace_id}".encode()).hexdigest()[:32],
        event_time=row.event_time,
        judge_name=row.judge_name,
        judge_id=row.judge_id,
        decision=Decision.FORGOTTEN,
        decided_at=row.judged_at if isinstance(row, Score) else row.decided_at,  # compared by nothing
    )
