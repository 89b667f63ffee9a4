"""How much the pipeline holds at once, and how long it lets things take."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

from tracejudge_consumer.retry_policy import RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineLimits:
    """Bounds of one pipeline. One poll may overshoot the two of `in_flight` by what it returns."""

    max_in_flight_records: int = 2_000
    max_in_flight_bytes: int = 64_000_000  # of record values; as objects they take several times that
    max_offset_gap: int = 10_000  # per partition, records at or beyond the oldest unfinished one
    batch_records: int = 1_000
    batch_wait_s: float = 0.5  # how long a batch waits to be filled
    judge_in_flight: int = 256  # traces handed to one judge at once; the others can still be left to somebody else
    past_patience: Literal["undecided", "invalid"] = "undecided"  # of traces whose judge was down for too long
    result_interval_s: float = 0.2  # how long verdicts gather before they are stored
    result_rows: int = 2_000  # so many do not wait for it
    commit_interval_s: float = 1.0
    drain_timeout_s: float = 30.0  # for work in flight when the pipeline is stopped
    unassigned_patience_s: float = 30.0  # with until_idle: how long to wait for a partition
    store_threads: int = 4  # store calls at the same time
    poll_s: float = 0.2  # longest wait for records
    lag_interval_s: float = 5.0  # how often the queue is asked how far it reaches
    stall_after_s: float = 120.0  # records wait and none is handed out: longer than a rebalance or a broker's restart
    store_retry: RetryPolicy = field(default_factory=RetryPolicy)

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, (int, float)) and value <= 0:
                raise ValueError(f"{one.name}: {value!r} is not above 0")
