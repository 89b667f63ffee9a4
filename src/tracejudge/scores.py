"""What a judge said about a trace, and what became of the traces it did not judge.

Every (trace, judge, run) ends as exactly one of two values: a `Score` (passed, failed or invalid) or a `LedgerRow` with
the reason why there is none. A judge's failure is a score with outcome invalid: counted, never averaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, NamedTuple, NewType

from tracejudge.quick import made_quickly

JudgeId = NewType("JudgeId", str)
"""Name and hash of everything that could change a verdict, as `name@0123456789ab`."""

LIVE_RUN: Final = "live"
"""The run of live traffic: the only one that enters rates, alerts and the ledger's equation."""

FEEDBACK_RUN: Final = "feedback"
"""Verdicts on traces that somebody complained about, judged for that reason: a population of its own, in no rate of
live traffic, since who complains is no random choice."""

MANUAL_RUN: Final = "manual"
"""Verdicts asked for by hand, one at a time."""

SHADOW_RUN: Final = "shadow"
"""The run of judges that watch live traffic on trial: no rate and no alert reads it."""

ANCHOR_RUN: Final = "anchor"
"""The run of known cases that watch the judge itself."""

MEASURING_RUNS: Final = frozenset({ANCHOR_RUN, "noise", "trial"})
"""What measures a judge: never answered from a cache, and in nobody's way."""

RESERVED_RUNS: Final = frozenset({LIVE_RUN, FEEDBACK_RUN, MANUAL_RUN, SHADOW_RUN, ANCHOR_RUN, "noise", "trial"})


class TraceKey(NamedTuple):
    """What names a trace: ids are unique within an app of an environment."""

    environment: str
    app: str
    trace_id: str


class TraceFacts(NamedTuple):
    """What alert rules may want to know of a trace beside its verdicts: how long the app took, in ms, where that is
    known, and values of its fields by name (`tags.NAME` for a tag)."""

    latency_ms: float | None
    fields: Mapping[str, str]


class Outcome(str, Enum):
    """The outcome of a score. Passed and failed are settled; invalid means that the trace could not be judged."""

    PASSED = "passed"
    FAILED = "failed"
    INVALID = "invalid"

    @property
    def settled(self) -> bool:
        return self is not Outcome.INVALID


class InvalidReason(str, Enum):
    """Why a score is invalid."""

    JUDGE_ERROR = "judge_error"  # the judge raised, or its endpoint failed after all attempts
    JUDGE_TIMEOUT = "judge_timeout"  # no answer within the limit
    RATE_LIMITED = "rate_limited"  # 429 after all attempts
    UNPARSABLE = "unparsable"  # the reply has none of the documented shapes, or two verdicts
    OUT_OF_RANGE = "out_of_range"  # a number off its scale, NaN or infinite
    REFUSED = "refused"  # the judge's model declined to answer
    EMPTY_REPLY = "empty_reply"
    BAD_REQUEST = "bad_request"  # the endpoint will never take this trace: over-long context, filtered content


class Decision(str, Enum):
    """Why a (trace, judge) has no score."""

    NOT_APPLICABLE = "not_applicable"  # this judge has nothing to say about this trace
    SAMPLED_OUT = "sampled_out"
    FILTERED = "filtered"  # a never-keep rule
    OVER_BUDGET = "over_budget"  # a hard cap cut it off: not random, so the window makes no unbiased claim
    SHED = "shed"
    INCOMPLETE = "incomplete"
    FORGOTTEN = "forgotten"
    UNDECIDED = "undecided"  # still to come: must reach zero


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What judging cost: calls to a model, tokens, money (None where no price is known), time."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    latency_ms: float = 0.0


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One judge's verdict on one trace in one run."""

    environment: str
    app: str
    version: str
    category: str
    trace_id: str
    event_time: datetime
    judge_name: str
    judge_id: JudgeId
    run_id: str = LIVE_RUN
    outcome: Outcome
    score: float | None  # in [0, 1]; None exactly when invalid
    reason: str = ""  # an InvalidReason's value when invalid
    feedback: str = ""  # the judge's explanation, as plain text
    raw_reply: str = ""  # what the judge's model really said, cut to a limit
    stratum: str = ""
    inclusion_probability: float = 1.0  # head x tail, in (0, 1]; the weight is 1 / it
    content_hash: str = ""  # of what was judged: equal content, equal hash
    model_reported: str = ""
    fingerprint: str = ""
    flags: tuple[str, ...] = ()  # "heuristic" for judges without a model, "suspected_injection", ...
    usage: Usage = Usage()
    judged_at: datetime
    revision: int = 0  # raised only by an explicit re-score

    @property
    def key(self) -> TraceKey:
        return TraceKey(self.environment, self.app, self.trace_id)

    @property
    def weight(self) -> float:
        """Horvitz-Thompson weight: how many traces of the traffic this one stands for."""
        return 1.0 / self.inclusion_probability


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """Why one judge has no score for one trace in one run."""

    environment: str
    app: str
    version: str
    category: str
    trace_id: str
    event_time: datetime
    judge_name: str
    judge_id: JudgeId
    run_id: str = LIVE_RUN
    decision: Decision
    reason: str = ""
    stratum: str = ""
    inclusion_probability: float = 1.0  # the chance it had, in [0, 1]: 0 by a never-rule or a rate of 0
    decided_at: datetime


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCall:
    """One call to a judge's model, failed ones too: what `cost` adds up and what budgets count."""

    call_id: str  # unique; a stored call is counted once however often it is inserted
    environment: str
    app: str
    trace_id: str
    judge_name: str
    judge_id: JudgeId
    run_id: str = LIVE_RUN
    status: str  # "ok", or a short code of what went wrong
    attempt: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None  # None: no price is known for this model
    latency_ms: float = 0.0
    model_reported: str = ""
    started_at: datetime


class Spend(NamedTuple):
    """Calls made and money spent. `usd` adds the calls with a known price; `unpriced` counts the others."""

    calls: int
    usd: float
    unpriced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Weighted counts of the settled scores of one pane and slice, enough for a rate and its interval.

    With w = 1 / inclusion probability, x = 1 for passed, 0 for failed, s the score: sums of w, w^2, wx, w^2 x and ws.
    """

    n: int = 0
    passed: int = 0
    invalid: int = 0
    sum_w: float = 0.0
    sum_w2: float = 0.0
    sum_wx: float = 0.0
    sum_w2x: float = 0.0
    sum_ws: float = 0.0

    def __add__(self, other: Bucket) -> Bucket:
        return Bucket(
            n=self.n + other.n,
            passed=self.passed + other.passed,
            invalid=self.invalid + other.invalid,
            sum_w=self.sum_w + other.sum_w,
            sum_w2=self.sum_w2 + other.sum_w2,
            sum_wx=self.sum_wx + other.sum_wx,
            sum_w2x=self.sum_w2x + other.sum_w2x,
            sum_ws=self.sum_ws + other.sum_ws,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that could not be read, kept whole with the reason."""

    source: str  # "kafka:topic", "sqlite:log" or "file:name"
    partition: int
    offset: int  # for a file: the line number, from 1
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    reason: str
    detail: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The verdict of a person (or another authority) on a trace by one criterion, such as faithfulness."""

    environment: str
    app: str
    trace_id: str
    criterion: str
    value: float  # 1.0 and 0.0 for yes and no
    source: str = ""
    note: str = ""
    labelled_at: datetime
