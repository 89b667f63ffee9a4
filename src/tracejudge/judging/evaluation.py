"""The evaluation now running: what a call deep inside somebody's evaluator must know and nobody could hand down to it.

Evaluations run as tasks of their own, and a user's evaluator calls its model where we have no say; so this travels in a
context variable.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple


class CallRecord(NamedTuple):
    """One call as it happened, before it is tied to a trace and a run."""

    call_id: str
    status: str
    attempt: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    latency_ms: float
    model_reported: str
    started_at: datetime


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """One judge on one trace: its calls so far, and whether live traffic goes before it."""

    calls: list[CallRecord] = field(default_factory=list)
    background: bool = False


current: Final[ContextVar[Evaluation | None]] = ContextVar("tracejudge_evaluation", default=None)


def in_background() -> bool:
    """True when live traffic goes before the evaluation now running."""
    evaluation = current.get()
    return evaluation is not None and evaluation.background
