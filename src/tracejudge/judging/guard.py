"""The guard around judging: bounded attempts, back-off, and a value for every failure, so that a batch loses nothing.

What an error means is said by `failures.diagnose`. Transient ones are tried again after a pause that holds no slot of
the limiter; what concerns one trace makes that trace invalid at once; what concerns the judge opens its circuit. Only
cancellation passes through.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from tracejudge.errors import JudgeGone
from tracejudge.judging.circuit import Circuit
from tracejudge.judging.failures import Diagnosis, OverBudget, SpendUnknown, diagnose, scrub
from tracejudge.judging.limiter import Limiter
from tracejudge.judging.spec import JudgeSpec
from tracejudge.scores import Decision, InvalidReason

T = TypeVar("T")

BASE_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 60.0
"""A Retry-After beyond this is not waited for: the trace becomes invalid / rate_limited, and the batch goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why there is no answer: an invalid result, or no result at all (over budget, or the judge is gone)."""

    outcome: InvalidReason | Decision
    code: str  # short and stable, to be counted by
    detail: str  # for people
    gone: JudgeGone | None = None


class _FailedAttempt(Exception):
    """One attempt failed, and what that means."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.detail)
        self.diagnosis = diagnosis


class Guard:
    """Runs the attempts of one judge. `sleep` and `jitter` (uniform on [0, 1)) are handed in by tests."""

    def __init__(
        self,
        spec: JudgeSpec,
        *,
        limiter: Limiter,
        circuit: Circuit,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._spec = spec
        self._limiter = limiter
        self._circuit = circuit
        self._sleep = sleep
        self._jitter = jitter

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T | Failure:
        """The value of the first attempt that succeeds, or why there is none. Raises nothing but cancellation."""
        for number in range(1, self._spec.max_attempts + 1):
            try:
                return await self._once(attempt)
            except _FailedAttempt as failed:
                diagnosis = failed.diagnosis
            wait_s = self.wait_s(diagnosis, number)
            if diagnosis.meaning == "invalid" or number == self._spec.max_attempts or wait_s > LONGEST_WAIT_S:
                break
            await self._sleep(wait_s)
        tried = f" (after {number} attempts)" if number > 1 else ""
        return Failure(outcome=diagnosis.reason, code=diagnosis.reason.value, detail=f"{diagnosis.detail}{tried}")

    def wait_s(self, diagnosis: Diagnosis, attempt: int) -> float:
        """Seconds before the next attempt: exponential with full jitter, and never sooner than the server asks."""
        backoff = BASE_WAIT_S * 2.0 ** (attempt - 1)
        jittered = backoff * (0.5 + 0.5 * self._jitter())
        asked = diagnosis.retry_after_s
        return jittered if asked is None else asked + jittered

    async def _once(self, attempt: Callable[[], Awaitable[T]]) -> T | Failure:
        # The circuit comes first: whoever waits for an unproven judge to answer holds no slot that others could use.
        async with self._circuit.passage() as gone:
            if gone is not None:
                return _undecided(gone)
            tried = self._circuit.gone  # not None for the one call that finds out whether the judge is back
            async with self._limiter.slot():
                found = self._circuit.gone
                if found is not None and found is not tried:
                    return _undecided(found)
                return await self._attempt(attempt)

    async def _attempt(self, attempt: Callable[[], Awaitable[T]]) -> T | Failure:
        try:
            value = await attempt()
        except OverBudget as error:
            return Failure(outcome=Decision.OVER_BUDGET, code=error.cap, detail=str(error))
        except SpendUnknown as error:
            return Failure(outcome=Decision.UNDECIDED, code="spend_unknown", detail=scrub(str(error)))
        except Exception as error:
            # A judge raises what its library does, and BatchEvalRunner would wait and repeat, then lose the whole
            # batch. CancelledError is no Exception and passes.
            diagnosis = diagnose(error)
            if diagnosis.meaning == "gone":
                found = JudgeGone(self._spec.name, diagnosis.gone_kind, diagnosis.detail)
                self._circuit.found_gone(found)
                return _undecided(found)
            if diagnosis.meaning == "invalid":
                self._circuit.answered()
            raise _FailedAttempt(diagnosis) from error
        self._circuit.answered()
        return value


def _undecided(gone: JudgeGone) -> Failure:
    return Failure(outcome=Decision.UNDECIDED, code=f"judge_gone_{gone.kind}", detail=str(gone), gone=gone)
