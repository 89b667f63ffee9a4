"""One call to a judge's model: admitted by the budget, bounded in time, recorded whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from tracejudge.clock import Clock
from tracejudge.judging.budget import Budget
from tracejudge.judging.cost import call_cost_usd
from tracejudge.judging.failures import CallError, CallTimeout, billed_nothing, diagnose
from tracejudge.judging.spec import JudgeSpec
from tracejudge_sdk.trace import new_trace_id

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Tokens of a call and who answered it, as far as the reply tells."""

    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
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


call_log: Final[ContextVar[list[CallRecord] | None]] = ContextVar("tracejudge_call_log", default=None)
"""The list that the calls of the evaluation now running are written to: evaluations run as tasks of their own, and a
user's evaluator makes its calls where nobody could hand it a list."""


class Meter:
    """Counts and records the calls of one judge."""

    def __init__(self, spec: JudgeSpec, *, budget: Budget, clock: Clock) -> None:
        self._spec = spec
        self._budget = budget
        self._clock = clock

    @property
    def ready(self) -> bool:
        """False while a call would have to wait for the store to say what was spent."""
        return self._budget.known

    async def wait_until_ready(self) -> None:
        """Waits while the store is away. Raises SpendUnknown where it refuses."""
        await self._budget.ready()

    async def call(
        self,
        make: Callable[[], Awaitable[T]],
        *,
        input_tokens: int,
        timeout_s: float,
        counted: Callable[[T], Counted] | None,
    ) -> T:
        """The value of `make()`. `input_tokens` is an estimate, to be replaced by what the reply says.

        `counted` None is for calls whose tokens nobody sees: their cost is unknown, which is not zero. Raises
        OverBudget or SpendUnknown without calling, CallTimeout, or what `make` raises.
        """
        most = self._cost(input_tokens, self._spec.most_reply_tokens) if counted is not None else None
        hold = await self._budget.admit(most or 0.0)
        started_at, start = self._clock.now(), self._clock.monotonic()
        cost, status, tally = most, "cancelled", Counted()
        try:
            value = await within(make(), timeout_s)
            status = "ok"
            if counted is not None:
                tally = counted(value)
                cost = self._cost(tally.input_tokens, tally.output_tokens)
            return value
        except Exception as error:  # whatever a judge's library raises: it is recorded and goes on its way
            status = diagnose(error).status
            # All else may have been billed: a call left waiting, a reply broken off or not to be read.
            if counted is not None and billed_nothing(error):
                cost = self._cost(0, 0)
            raise
        finally:
            self._budget.settle(hold, usd=cost or 0.0)
            log = call_log.get()
            if log is not None:
                log.append(
                    CallRecord(
                        call_id=new_trace_id(),
                        status=status,
                        attempt=len(log) + 1,
                        input_tokens=tally.input_tokens,
                        output_tokens=tally.output_tokens,
                        cost_usd=cost,
                        latency_ms=1000.0 * (self._clock.monotonic() - start),
                        model_reported=tally.model,
                        started_at=started_at,
                    )
                )

    def _cost(self, input_tokens: int, output_tokens: int) -> float | None:
        return call_cost_usd(self._spec, input_tokens=input_tokens, output_tokens=output_tokens)


_GRACE_S: Final = 0.05
_abandoned: Final[set[asyncio.Task[Any]]] = set()


async def within(awaitable: Awaitable[T], timeout_s: float) -> T:
    """The awaitable's value, if it comes within `timeout_s`; else CallTimeout, with next to no delay.

    Unlike asyncio.wait_for this does not wait for a judge that ignores its cancellation; whatever it answers later is
    dropped.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait({task}, timeout=timeout_s)
    except asyncio.CancelledError:
        _abandon(task)
        raise
    if not task.done():
        _abandon(task)
        # Time for last words: what was called on its behalf is still to be recorded.
        await asyncio.wait({task}, timeout=_GRACE_S)
        raise CallTimeout(f"no answer within {timeout_s:g} s; raise timeout_s if the judge is merely slow")
    if task.cancelled():
        raise CallError("the judge cancelled itself")
    return task.result()


def _abandon(task: asyncio.Future[Any]) -> None:
    task.cancel()
    if isinstance(task, asyncio.Task):
        # The loop holds tasks weakly, and an error nobody looks at would be logged as never retrieved.
        _abandoned.add(task)
        task.add_done_callback(_drop)


def _drop(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()
