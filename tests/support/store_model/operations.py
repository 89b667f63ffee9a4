"""What may happen to a store, as plain values made from a seed, so that a failing run can be cut down and repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final, Literal

from tracejudge.scores import Decision, JudgeCall, JudgeId, Label, LedgerRow, Outcome, Score
from tracejudge.store import StoredFeedback, StoredTrace
from tracejudge.testing import make_trace
from tracejudge_sdk.trace import Feedback

START: Final = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
JUDGED: Final = START + timedelta(days=5)
END: Final = START + timedelta(days=4)
TRACES: Final = 60  # few, so that they meet each other often
USERS: Final = 7
ADOPTED_AT: Final = START + timedelta(hours=9)
JUDGES: Final = (("lexical", "lexical@1"), ("lexical", "lexical@2"), ("faithfulness", "faithfulness@1"))
TABLES: Final = (
    "scores",
    "scores_by_judged",
    "traces",
    "trace_index",
    "ledger",
    "labels",
    "feedback",
    "minutes",
    "calls",
)

Kind = Literal[
    "traces", "scores", "ledger", "labels", "feedback", "calls", "bad_scores",
    "redeliver", "lost_answer", "forget", "sweep", "merge", "rollup", "reopen", "kill", "kill_while_inserting",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    """One step. `values` are rows to insert; `detail` is whatever else its kind needs."""

    kind: Kind
    values: tuple[Any, ...] = ()
    detail: Any = None


_WEIGHTS: Final[dict[Kind, int]] = {
    "traces": 13, "scores": 20, "ledger": 14, "labels": 10, "feedback": 9, "calls": 6, "bad_scores": 2,
    "redeliver": 12, "lost_answer": 2, "forget": 2, "sweep": 1, "merge": 6, "rollup": 2, "reopen": 1,
}  # fmt: skip


def operations(seed: int, steps: int, *, kill_every: int = 0) -> Iterator[Operation]:
    """`steps` operations; every `kill_every`-th (0: none) kills whoever owns the engine."""
    draw = random.Random(seed)
    make = _Maker(draw)
    kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    for step in range(steps):
        if kill_every and step % kill_every == kill_every - 1:
            kind: Kind = draw.choice(("kill", "kill_while_inserting"))
            yield Operation(kind, make.scores() if kind == "kill_while_inserting" else ())
            continue
        (kind,) = draw.choices(kinds, weights)
        yield make.operation(kind)


class _Maker:
    """Makes rows. Instants that decide which row wins are never equal, so that the right answer is always one."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._used: set[int] = set()
        self._forgotten = 0

    def operation(self, kind: Kind) -> Operation:
        draw = self._draw
        if kind == "traces":
            return Operation(kind, tuple(self._trace(number) for number in self._numbers()))
        if kind in ("scores", "lost_answer"):
            return Operation(kind, self.scores())
        if kind == "bad_scores":
            return Operation(kind, self.scores(), draw.randrange(3))
        if kind == "ledger":
            return Operation(kind, tuple(self._decision(number) for number in self._numbers()))
        if kind == "labels":
            return Operation(kind, tuple(self._label(number) for number in self._numbers()))
        if kind == "feedback":
            return Operation(kind, tuple(self._feedback(number) for number in self._numbers()))
        if kind == "calls":
            return Operation(kind, tuple(self._call(number) for number in self._numbers()))
        if kind == "redeliver":  # a stretch of what was delivered before, cut into batches of this size
            return Operation(kind, (), (draw.random(), draw.randint(1, 9), draw.randint(3, 9)))
        if kind == "forget":
            self._forgotten += 1
            if self._forgotten > TRACES // 4:  # the rest must stay worth looking at
                return Operation("merge", (), draw.choice(TABLES))
            if draw.random() < 0.15 and self._forgotten > 8:
                return Operation(kind, (), ("user", f"u{draw.randrange(USERS)}"))
            return Operation(kind, (), ("trace", f"t-{draw.randrange(TRACES):06d}"))
        if kind == "merge":
            return Operation(kind, (), draw.choice(TABLES))
        return Operation(kind)

    def scores(self) -> tuple[Score, ...]:
        return tuple(self._score(number) for number in self._numbers())

    def _numbers(self) -> list[int]:
        return [self._draw.randrange(TRACES) for _ in range(self._draw.randint(1, 6))]

    def _instant(self) -> timedelta:
        """Never given twice."""
        while (ms := self._draw.randrange(10_000_000)) in self._used:
            pass
        self._used.add(ms)
        return timedelta(milliseconds=ms)

    def _trace(self, number: int) -> StoredTrace:
        draw = self._draw
        incomplete = draw.random() < 0.2
        moved = draw.random() < 0.15  # a redelivery that brings another event time: the first one stands
        trace = make_trace(
            number,
            **served_by(number),
            event_time=_served(number) + timedelta(hours=draw.randrange(1, 9) if moved else 0),
            query=f"question {number}, told the {draw.randrange(1000)}th time",
            status="incomplete" if incomplete else "ok",
            response=None if incomplete else f"answer {number}",
            user_id=f"u{number % USERS}",
            latency_ms=float(draw.randrange(1, 5000)),
        )
        return StoredTrace(trace=trace, ingested_at=JUDGED + self._instant(), source="model", offset=number)

    def _score(self, number: int) -> Score:
        draw = self._draw
        name, judge_id = draw.choice(JUDGES)
        outcome = draw.choices(list(Outcome), [6, 3, 2])[0]
        odd = draw.random() < 0.05  # a number that is none becomes invalid, whatever the judge said
        number_of = {Outcome.PASSED: draw.uniform(0.5, 1.0), Outcome.FAILED: draw.uniform(0.0, 0.5)}.get(outcome)
        return Score(
            **served_by(number),
            trace_id=f"t-{number:06d}",
            event_time=_served(number),
            judge_name=name,
            judge_id=JudgeId(judge_id),
            run_id=draw.choices(("live", "try-1", "manual"), [8, 3, 1])[0],
            outcome=outcome,
            score=draw.choice((float("nan"), float("inf"), -1.0, None)) if odd else number_of,
            feedback=f"said of {number}",
            stratum=("", "bulk")[number % 2],
            inclusion_probability=(number % 4 + 1) / 4,
            content_hash=f"content-{number}",
            judged_at=JUDGED + self._instant(),
            revision=draw.choices((0, 1, 2), [30, 2, 1])[0],
        )

    def _decision(self, number: int) -> LedgerRow:
        draw = self._draw
        name, judge_id = draw.choice(JUDGES)
        decisions = [one for one in Decision if one is not Decision.FORGOTTEN]
        return LedgerRow(
            **served_by(number),
            trace_id=f"t-{number:06d}",
            event_time=_served(number),
            judge_name=name,
            judge_id=JudgeId(judge_id),
            run_id=draw.choices(("live", "try-1"), [5, 1])[0],
            decision=draw.choice(decisions),
            decided_at=JUDGED + self._instant(),
        )

    def _label(self, number: int) -> Label:
        common = served_by(number)
        return Label(
            environment=common["environment"],
            app=common["app"],
            trace_id=f"t-{number:06d}",
            criterion=self._draw.choice(("faithfulness", "relevance")),
            value=float(self._draw.randrange(2)),
            source=self._draw.choice(("anna", "ben")),
            labelled_at=JUDGED + self._instant(),
        )

    def _feedback(self, number: int) -> StoredFeedback:
        common = served_by(number)
        said = Feedback(
            feedback_id=f"f-{number}-{self._draw.randrange(2)}",
            trace_id=f"t-{number:06d}",
            environment=common["environment"],
            app=common["app"],
            value=float(self._draw.randrange(2)),
            event_time=_served(number),
        )
        return StoredFeedback(feedback=said, ingested_at=JUDGED + self._instant())

    def _call(self, number: int) -> JudgeCall:
        common = served_by(number)
        name, judge_id = JUDGES[2]
        return JudgeCall(
            call_id=f"c-{number}",
            environment=common["environment"],
            app=common["app"],
            trace_id=f"t-{number:06d}",
            judge_name=name,
            judge_id=JudgeId(judge_id),
            status="ok",
            cost_usd=number / 8,  # exact in binary: sums do not depend on their order
            started_at=_served(number),
        )


def _served(number: int) -> datetime:
    return START + timedelta(minutes=25 * number, seconds=number)  # over more than a day: two or three partitions


def served_by(number: int) -> dict[str, Any]:
    """The fields that follow from a trace's number."""
    return {
        "environment": ("production", "production", "staging")[number % 3],
        "app": ("shop", "desk")[number % 2],
        "version": f"v{number % 2}",
        "category": ("", "billing")[number // 2 % 2],
    }
