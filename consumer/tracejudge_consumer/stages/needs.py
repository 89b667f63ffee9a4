"""Protocols of what the pipeline needs of the store and of the judges, and no more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from tracejudge.judging import JudgeTask, PanelResult
from tracejudge.judging.tasks import OnJudged
from tracejudge.scores import LIVE_RUN, DeadLetter, JudgeCall, JudgeId, LedgerRow, Score, TraceKey
from tracejudge.store import EpochsRead, Identity, Inserted, Known, StoredFeedback, StoredPart, StoredTrace

_Row = TypeVar("_Row", contravariant=True)


class Judges(Protocol):
    """A panel: judges batches, several at once, and never raises for a judge's failure.

    `evaluate` and `evaluate_each` raise ServiceUnavailable, before anything is judged, when the spending of a judge
    cannot be read.
    """

    @property
    def judge_ids(self) -> Mapping[str, JudgeId]: ...
    @property
    def instant(self) -> Collection[str]:
        """Names of the judges that call nothing: a whole batch takes them next to no time."""
        ...

    @property
    def shadow(self) -> Collection[str]:
        """Names of the judges on trial, whose rows belong to run "shadow"."""
        ...

    async def evaluate(self, tasks: Sequence[JudgeTask], *, run_id: str = LIVE_RUN) -> PanelResult: ...
    async def evaluate_each(self, tasks: Sequence[JudgeTask], on_result: OnJudged, *, run_id: str = LIVE_RUN) -> None:
        """Calls `on_result(index of the task, result of one judge)` for each verdict as soon as there is one."""
        ...

    async def close(self) -> None: ...


class Inserts(Protocol[_Row]):
    """A table for rows; inserting a row again changes nothing."""

    def insert(self, rows: Sequence[_Row], /) -> Inserted: ...


class Parts(Inserts[StoredPart], Protocol):
    """The parts of traces that are not complete yet."""

    def of(self, keys: Sequence[TraceKey], /) -> dict[TraceKey, list[StoredPart]]: ...


class Tombstones(Protocol):
    """The tombstones of traces and users that were forgotten (`tracejudge forget`)."""

    def forgotten(self, identities: Collection[Identity], /) -> frozenset[TraceKey]: ...
    def bury(self, keys: Sequence[TraceKey], /, *, at: datetime) -> None: ...


class SamplingEpochs(Protocol):
    """The sampling rates set by the governors, with the store's time before they were read."""

    def in_force(self, start: datetime, end: datetime | None = None, /) -> EpochsRead: ...


class PipelineStore(Protocol):
    """The tables a batch is written to. Thread-safe; raises StoreUnavailable when it is away."""

    @property
    def traces(self) -> Inserts[StoredTrace]: ...
    @property
    def parts(self) -> Parts: ...
    @property
    def feedback(self) -> Inserts[StoredFeedback]: ...
    @property
    def scores(self) -> Inserts[Score]: ...
    @property
    def ledger(self) -> Inserts[LedgerRow]: ...
    @property
    def calls(self) -> Inserts[JudgeCall]: ...
    @property
    def dead_letters(self) -> Inserts[DeadLetter]: ...
    @property
    def tombstones(self) -> Tombstones: ...
    @property
    def sampling_epochs(self) -> SamplingEpochs: ...
    def lookup(self, keys: Sequence[TraceKey], /, *, run_id: str = LIVE_RUN) -> dict[TraceKey, Known]: ...
