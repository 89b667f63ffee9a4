"""One call to a judge's model: admitted by the budget, bounded in time, recorded whatever becomes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from tracejudge.clock import Clock
from tracejudge.judging.calls.budget import Budget
from tracejudge.judging.calls.cost import TYPICAL_REPLY_TOKENS, call_cost_usd
from tracejudge.judging.calls.deadlines import Deadlines, within
from tracejudge.judging.calls.failures import UNREACHABLE, Diagnosis, billed_nothing, diagnose
from tracejudge.judging.calls.limiter import Limiter
from tracejudge.judging.entropy import hex_digits
from tracejudge.judging.evaluation import CallRecord, current
from tracejudge.judging.specs.spec import JudgeSpec

T = TypeVar("T")


class Counted(NamedTuple):
    """Tokens of a call and the model that served it, as far as the reply says."""

    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""


_UNCOUNTED: Final = Counted()


class Meter:
    """Counts and records the calls of one judge."""

    def __init__(self, spec: JudgeSpec, *, budget: Budget, limiter: Limiter, clock: Clock) -> None:
        self._spec = spec
        self._budget = budget
        self._limiter = limiter
        self._clock = clock
        self._deadlines = Deadlines(spec.timeout_s)
        self._most_reply = spec.most_reply_tokens
        self._typical_reply = min(self._most_reply, TYPICAL_REPLY_TOKENS)
        self._free = call_cost_usd(spec, input_tokens=0, output_tokens=0)

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
        counted: Callable[[T], Counted] | None,
        stops_at_once: bool = False,
    ) -> T:
        """The value of `make()`. `input_tokens` is an estimate, to be replaced by what the reply says.

        `counted` None is for calls whose tokens nobody sees: their cost is unknown, which is not zero. `stops_at_once`:
        what `make` gives ends when it is cancelled, so it needs no task of its own to be left behind. Raises OverBudget
        or SpendUnknown without calling, CallTimeout, or what `make` raises.
        """
        most = self._cost(input_tokens, self._most_reply) if counted is not None else None
        hold = await self._budget.admit(most or 0.0)
        # "cancelled" may have been billed as well; what was never begun was not.
        cost, status, tally = self._free, "cancelled", _UNCOUNTED
        begun = made = False
        start = 0.0
        diagnosis: Diagnosis | None = None
        expected_tokens = input_tokens + self._typical_reply
        try:
            await self._limiter.begin(expected_tokens)
            begun = made = True
            cost = most
            start = self._clock.monotonic()
            value = await (self._deadlines.keep(make()) if stops_at_once else within(make(), self._spec.timeout_s))
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
                cost = self._free
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
        if self._free is None:
            return None
        return call_cost_usd(self._spec, input_tokens=input_tokens, output_tokens=output_tokens)
