"""Rows of the store beside those of `tracejudge.scores` and of alerts (`alert_rows`): a frozen class each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from tracejudge.quick import made_quickly
from tracejudge.scores import Bucket, DeadLetter, Decision, JudgeId, Score, TraceKey
from tracejudge_sdk.trace import Feedback, Trace, TracePart


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """A trace with its cheap signals and the place it came from (offset: a file's line number, from 1).

    `texts_expired` is said by the store: the texts had their time, so that what is left (query "", no response) is not
    what was served and nothing may be judged by it. It is not read when a trace is stored.
    """

    trace: Trace
    signals: Mapping[str, object] = field(default_factory=dict)  # JSON values
    ingested_at: datetime
    source: str = ""  # "kafka:topic", "sqlite:log" or "file:name"
    partition: int = 0
    offset: int = 0
    texts_expired: bool = False

    @property
    def key(self) -> TraceKey:
        return TraceKey(self.trace.environment, self.trace.app, self.trace.trace_id)

    @property
    def place(self) -> TracePlace:
        """The trace's position in the order in which traces are streamed."""
        trace = self.trace
        return TracePlace(
            event_time=trace.event_time, trace_id=trace.trace_id, environment=trace.environment, app=trace.app
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """A part of a trace that waits for the rest."""

    part: TracePart
    ingested_at: datetime
    source: str = ""
    partition: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFeedback:
    """Feedback on an answer, with the instant at which it was ingested."""

    feedback: Feedback
    ingested_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A row the store would not take, by its place in the batch: the others were stored."""

    index: int
    reason: str  # "ill_typed", "naive_datetime", "out_of_range"
    detail: str  # names the field and the value


@dataclass(frozen=True, slots=True, kw_only=True)
class Inserted:
    """What became of a batch: how many rows were stored, and which were not and why (they are in `dead_letters`)."""

    stored: int
    rejected: tuple[Rejected, ...] = ()


DeadLetterState = Literal["open", "replayed", "dropped"]
"""open: nothing was done about it yet. replayed: sent to the queue again. dropped: given up, its bytes with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDeadLetter:
    """A dead letter with what was done about it. `value_hash` stands for the bytes that came, also once dropped."""

    letter: DeadLetter
    value_hash: str
    state: DeadLetterState = "open"
    marked_at: datetime | None = None

    @property
    def letter_id(self) -> str:
        """`PARTITION.OFFSET.HASH`: short enough to type, and one of a source."""
        return f"{self.letter.partition}.{self.letter.offset}.{self.value_hash[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadCount:
    """The number of unreadable records of one partition in an hour, by reason."""

    hour: datetime
    source: str
    partition: int
    reason: str
    count: int


class Known(NamedTuple):
    """What the store knows of a trace: the event time that its first record fixed, and who has judged it.

    `invalid` holds judges whose only verdict so far is invalid; they may try again.
    """

    event_time: datetime
    settled: frozenset[JudgeId]
    invalid: frozenset[JudgeId]


class Cursor(NamedTuple):
    """A place in the order in which scores are folded."""

    judged_at: datetime
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePlace:
    """A place in the order in which traces are streamed."""

    event_time: datetime
    trace_id: str
    environment: str
    app: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRow:
    """Weighted counts of one pane, judge, slice and stratum."""

    start: datetime
    judge_name: str
    judge_id: JudgeId
    group: Mapping[str, str]
    stratum: str
    bucket: Bucket
    heuristic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One trace judged in two runs."""

    key: TraceKey
    a: Score
    b: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """Per judge (and hour): traces = passed + failed + invalid + sum(decisions) + unaccounted, always.

    `traces` counts the stored traces of the window's event time that the judge answers for: those ingested since its
    name was first registered, and those it decided anyway. `unaccounted` must reach 0. A trace judged under two
    JudgeIds of one name counts once, by the JudgeId that settled it first; `judge_id` is the one seen most, or the one
    live at the window's end where none was seen.
    """

    judge_name: str
    judge_id: JudgeId
    hour: datetime | None
    traces: int
    passed: int
    failed: int
    invalid: int
    decisions: Mapping[Decision, int]
    unaccounted: int
    heuristic: bool = False
    not_applicable: Mapping[str, int] = field(default_factory=dict)  # by reason: what decisions counts as a number


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """The cost of one JudgeId for one app on one day (UTC)."""

    day: datetime
    judge_name: str
    judge_id: JudgeId
    environment: str
    app: str
    run_id: str
    calls: int
    failed_calls: int
    input_tokens: int
    output_tokens: int
    usd: float
    unpriced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff:
    """Traces that a hard cap kept from one judge in one window and slice."""

    start: datetime
    judge_name: str
    traces: int
    group: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunManifest:
    """What a run was: a replay's name, what was asked for, and by which release."""

    run_id: str
    kind: str  # "replay", "gate", ...
    started_at: datetime
    finished_at: datetime | None = None
    manifest: Mapping[str, Any] = field(default_factory=dict)  # JSON values: judges, filter, counts, cost


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredJudge:
    """A JudgeId with the spec that made it."""

    judge_name: str
    judge_id: JudgeId
    spec: Mapping[str, Any]  # JSON values; never a key
    heuristic: bool
    registered_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """From when on (by event time) a JudgeId is the one behind a judge name's rates."""

    judge_name: str
    judge_id: JudgeId
    live_from: datetime
    adopted_by: str = ""
    note: str = ""


class Lease(NamedTuple):
    """A name held until `expires_at` (the store's clock). `fencing` grows with every new holder."""

    name: str
    holder: str
    fencing: int
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingEpoch:
    """Sampling rates in force from an event time on. `rates` holds JSON values."""

    epoch: int
    starts_at: datetime
    rates: Mapping[str, Any]
    decided_at: datetime
