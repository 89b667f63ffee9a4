"""One call to a judge's model: admitted by the budget, bounded in time, recorded whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from tracejudge.clock import Clock
from tracejudge.judging.budget import Budget
from tracejudge.judging.cost import TYPICAL_REPLY_TOKENS, call_cost_usd
from tracejudge.judging.entropy import hex_digits
from tracejudge.judging.evaluation import CallRecord, current
from tracejudge.judging.failures import UNREACHABLE, CallError, CallTimeout, Diagnosis, billed_nothing, diagnose
from tracejudge.judging.limiter import Limiter
from tracejudge.judging.spec import JudgeSpec

T = TypeVar("T")


class Counted(NamedTuple):
    """Tokens of a call and who answered it, as far as the reply tells."""

    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""


class Meter:
    """Counts and records the calls of one judge."""

    def __init__(self, spec: JudgeSpec, *, budget: Budget, limiter: Limiter, clock: Clock) -> None:
        self._spec = spec
        self._budget = budget
        self._limiter = limiter
        self._clock = clock
        self._typical_reply = min(spec.most_reply_tokens, TYPICAL_REPLY_TOKENS)

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
        stops_at_once: bool = False,
    ) -> T:
        """The value of `make()`. `input_tokens` is an estimate, to be replaced by what the reply says.

        `counted` None is for calls whose tokens nobody sees: their cost is unknown, which is not zero. `stops_at_once`:
        what `make` gives ends when it is cancelled, so it needs no task of its own to be left behind. Raises OverBudget
        or SpendUnknown without calling, CallTimeout, or what `make` raises.
        """
        most = self._cost(input_tokens, self._spec.most_reply_tokens) if counted is not None else None
        hold = await self._budget.admit(most or 0.0)
        # "cancelled" may have been billed as well; what was never begun was not.
        cost, status, tally = self._cost(0, 0), "cancelled", Counted()
        begun = made = False
        start = 0.0
        diagnosis: Diagnosis | None = None
        expected_tokens = input_tokens + self._typical_reply
        try:
            await self._limiter.begin(expected_tokens)
            begun = made = True
            cost = most
            start = self._clock.monotonic()
            value = await (bounded(make(), timeout_s) if stops_at_once else within(make(), timeout_s))
            status = "ok"
            if counted is not None:
                tally = counted(value)
                cost = self._cost(tally.input_tokens, tally.output_tokens)
            return value
        except Exception as error:  # whatever a judge's library raises: it is recorded and goes on its way
            diagnosis = diagnose(error)
            status = diagnosis.status
            made = status != UNREACHABLE
            # All else may have been billed: a call left waiting, a reply broken off or not to be read.
            if counted is not None and billed_nothing(error):
                cost = self._cost(0, 0)
            raise
        finally:
            latency_s = self._clock.monotonic() - start if begun else 0.0
            if begun:
                self._tell_limiter(status, diagnosis, latency_s)
                if status == "ok" and counted is not None:
                    self._limiter.correct_tokens(tally.input_tokens + tally.output_tokens - expected_tokens)
            self._budget.settle(hold, usd=cost or 0.0, made=made)
            evaluation = current.get()
            if evaluation is not None and begun:
                evaluation.calls.append(
                    CallRecord(
                        call_id=hex_digits(32),
                        status=status,
                        attempt=len(evaluation.calls) + 1,
                        input_tokens=tally.input_tokens,
                        output_tokens=tally.output_tokens,
                        cost_usd=cost,
                        latency_ms=1000.0 * latency_s,
                        model_reported=tally.model,
                        started_at=hold.at,
                    )
                )

    def _tell_limiter(self, status: str, diagnosis: Diagnosis | None, latency_s: float) -> None:
        if status == "ok":
            self._limiter.answered(latency_s)
        elif diagnosis is not None and diagnosis.capacity:
            self._limiter.refused(retry_after_s=diagnosis.retry_after_s)
        else:
            self._limiter.ended()

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
        raise _too_late(timeout_s)
    if task.cancelled():
        raise CallError("the judge cancelled itself")
    return task.result()


async def bounded(awaitable: Awaitable[T], timeout_s: float) -> T:
    """The awaitable's value, if it comes within `timeout_s`; else CallTimeout.

    For what ends as soon as it is cancelled: it runs in the caller's own task, at a tenth of the cost of `within`.
    """
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("bounded() needs a task")
    asked_before = task.cancelling() if hasattr(task, "cancelling") else 0
    fired = False

    def fire() -> None:
        nonlocal fired
        fired = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(timeout_s, fire)
    try:
        return await awaitable
    except asyncio.CancelledError:
        # Python 3.10 cannot tell that somebody else asked for a cancellation in the same moment.
        if not fired or (hasattr(task, "uncancel") and task.uncancel() > asked_before):
            raise
        raise _too_late(timeout_s) from None
    finally:
        timer.cancel()


def _too_late(timeout_s: float) -> CallTimeout:
    return CallTimeout(f"no answer within {timeout_s:g} s; raise timeout_s if the judge is merely slow")


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
