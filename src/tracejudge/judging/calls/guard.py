"""The guard around judging: bounded attempts, back-off, and a value for every failure, so that a batch loses nothing.

What an error means is said by `failures.diagnose`. Transient ones are tried again after a pause that holds no slot of
the limiter; what concerns one trace makes that trace invalid at once; what concerns the judge opens its circuit. A
connection that never came about is no attempt of the trace. Only cancellation passes through.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from tracejudge.clock import Clock
from tracejudge.errors import JudgeDown, JudgeGone
from tracejudge.judging.calls.circuit import THROTTLED, Circuit, Passage
from tracejudge.judging.calls.failures import UNREACHABLE, Diagnosis, OverBudget, SpendUnknown, diagnose, scrub
from tracejudge.judging.calls.limiter import Limiter
from tracejudge.judging.evaluation import current, in_background
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.scores import Decision, InvalidReason

_LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")

BASE_WAIT_S: Final = 0.5
TOLD_AFTER_S: Final = 5.0
"""How long one trace has waited for an endpoint that is down when the log says so, once an outage."""
SHORTEST_PAUSE_S: Final = 0.05
LONGEST_BACKOFF_S: Final = 30.0
MOST_UNREACHED: Final = 20
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
    """Runs the attempts of one judge.

    `patience_s`: how long a trace waits for an endpoint that is down before it is left undecided. `sleep` and `jitter`
    (uniform on [0, 1)) are handed in by tests.
    """

    def __init__(
        self,
        spec: JudgeSpec,
        *,
        limiter: Limiter,
        circuit: Circuit,
        clock: Clock,
        patience_s: float = 0.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._spec = spec
        self._limiter = limiter
        self._circuit = circuit
        self._clock = clock
        self._patience_s = patience_s
        self._sleep = sleep
        self._jitter = jitter
        self._told_down = False
        self.control: Callable[[], Awaitable[object]] | None = None
        """Asks again what was answered before. Where there is such a thing, it is what finds out whether an endpoint
        that is down is back: a trace that no judge can answer would say "still down" for ever."""

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T | Failure:
        """The value of the first attempt that succeeds, or why there is none. Raises nothing but cancellation."""
        # The parts and repeats of one trace are one trace: alone they are no sign that the endpoint is down.
        row = current.get() or object()
        background = in_background()
        began: float | None = None  # to wait for an endpoint that is down
        number = unreached = 0
        spared = False
        suspected: tuple[int, Diagnosis] | None = None  # a failure that opened the circuit, or came while it opened
        while True:
            diagnosis: Diagnosis | None = None
            if suspected is not None and self._circuit.gone is None:
                # The endpoint was there all the time: then it was the trace's own failure.
                if self._circuit.was_false_alarm(suspected[0]):
                    # Except that a storm of 429s may well be over when it is first looked for: once.
                    short_storm = suspected[1].reason is InvalidReason.RATE_LIMITED and not spared
                    spared = spared or short_storm
                    number += not short_storm
                if number >= self._spec.max_attempts:
                    diagnosis = suspected[1]
                    break
                suspected = None
            try:
                outcome = await self._once(attempt, row, background=background)
                if not _is_down(outcome):
                    self._tell_back()
                    return outcome
            except _FailedAttempt as failed:
                diagnosis = failed.diagnosis
            if isinstance(down := self._circuit.gone, JudgeDown):
                # Found by this failure or by another meanwhile: so far it is the endpoint's, and no fault of the trace.
                if diagnosis is not None and diagnosis.status != UNREACHABLE:
                    suspected = (self._circuit.opening, diagnosis)
                began = self._clock.monotonic() if began is None else began
                if not await self._endures(down, began):
                    return _undecided(down)
                continue
            if diagnosis is None:  # it was down a moment ago, and is there again
                continue
            if diagnosis.status == UNREACHABLE:
                # The circuit opens long before this; only an endpoint that is there every now and then gets so far.
                unreached += 1
                if unreached >= MOST_UNREACHED:
                    return _undecided(self._down(diagnosis))
                await self._sleep(self.wait_s(diagnosis, unreached))
                continue
            number += 1
            wait_s = self.wait_s(diagnosis, number)
            if diagnosis.meaning == "invalid" or number == self._spec.max_attempts or wait_s > LONGEST_WAIT_S:
                break
            await self._sleep(wait_s)
        tried = f" (after {number} attempts)" if number > 1 else ""
        return Failure(outcome=diagnosis.reason, code=diagnosis.reason.value, detail=f"{diagnosis.detail}{tried}")

    async def _endures(self, down: JudgeDown, began: float) -> bool:
        """Waits until the endpoint may be tried again; False when patience is at its end."""
        # An endpoint that answers 429 is there: it is waited for as long as a Retry-After would be.
        patience_s = max(self._patience_s, LONGEST_WAIT_S) if down.kind == THROTTLED else self._patience_s
        left_s = began + patience_s - self._clock.monotonic()
        if left_s <= 0.0:
            return False
        if not self._told_down and self._clock.monotonic() - began >= TOLD_AFTER_S:
            self._told_down = True
            _LOG.warning("%s: its traces wait for it, up to %g s each", down, patience_s)
        await self._sleep(min(left_s, max(SHORTEST_PAUSE_S, self._circuit.availability.retry_in_s or 0.0)))
        return True

    def _tell_back(self) -> None:
        if self._told_down and self._circuit.gone is None:
            self._told_down = False
            _LOG.warning("judge %r answers again", self._spec.name)

    def wait_s(self, diagnosis: Diagnosis, attempt: int) -> float:
        """Seconds before the next attempt: exponential with full jitter, and never sooner than the server asks."""
        backoff = min(BASE_WAIT_S * 2.0 ** (attempt - 1), LONGEST_BACKOFF_S)
        jittered = backoff * (0.5 + 0.5 * self._jitter())
        asked = diagnosis.retry_after_s
        return jittered if asked is None else asked + jittered

    async def _once(self, attempt: Callable[[], Awaitable[T]], row: object, *, background: bool) -> T | Failure:
        # The circuit comes first: whoever waits for an unproven judge to answer holds no slot that others could use.
        entered = await self._circuit.enter()
        if not isinstance(entered, Passage):
            return _undecided(entered)
        tried = self._circuit.gone
        try:
            await self._limiter.acquire(background=background)
            try:
                if entered is not Passage.PROBE and (found := self._circuit.gone) is not None:
                    return _undecided(found)
                if self.control is not None and isinstance(tried, JudgeDown):
                    return await self._prove(self.control, tried)
                return await self._attempt(attempt, row)
            finally:
                self._limiter.release(background=background)
        finally:
            self._circuit.leave(entered)

    async def _attempt(self, attempt: Callable[[], Awaitable[T]], row: object) -> T | Failure:
        number = self._circuit.sent()
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
            if diagnosis.status == "forbidden" and await self._still_answers(attempt):
                diagnosis = replace(diagnosis, meaning="invalid", reason=InvalidReason.BAD_REQUEST)
            if diagnosis.meaning == "gone":
                found = JudgeGone(self._spec.name, diagnosis.gone_kind, diagnosis.detail)
                self._circuit.found_gone(found)
                return _undecided(found)
            if diagnosis.meaning == "invalid":
                self._circuit.answered()
            elif diagnosis.reason is InvalidReason.RATE_LIMITED:
                for_long = (diagnosis.retry_after_s or 0.0) > LONGEST_WAIT_S
                self._circuit.refused(row, self._down(diagnosis), for_long=for_long)
            else:
                self._circuit.failed(row, self._down(diagnosis), reached=diagnosis.status != UNREACHABLE)
            raise _FailedAttempt(diagnosis) from error
        finally:
            self._circuit.ended(number)
        self._circuit.answered()
        return value

    async def _still_answers(self, attempt: Callable[[], Awaitable[object]]) -> bool:
        """True when a 403 was about this trace alone: what was answered before is answered again. A firewall before the
        endpoint says 403 to texts that look like an attack, and one such text must not stop the judge for all."""
        if self.control is None or attempt is self.control:
            return False
        try:
            await self.control()
        except Exception:  # noqa: BLE001 - whatever it is, it is no answer
            return False
        return True

    async def _prove(self, control: Callable[[], Awaitable[object]], tried: JudgeDown) -> Failure:
        """Finds out whether the endpoint is back; the trace's own attempt comes after that."""
        with contextlib.suppress(_FailedAttempt):  # the circuit knows what it means
            found = await self._attempt(control, control)
            if isinstance(found, Failure):
                return found
        return _undecided(tried)

    def _down(self, diagnosis: Diagnosis) -> JudgeDown:
        return JudgeDown(self._spec.name, diagnosis.status, diagnosis.detail)


def _is_down(outcome: object) -> bool:
    return isinstance(outcome, Failure) and isinstance(outcome.gone, JudgeDown)


def _undecided(gone: JudgeGone) -> Failure:
    prefix = "judge_down" if isinstance(gone, JudgeDown) else "judge_gone"
    return Failure(outcome=Decision.UNDECIDED, code=f"{prefix}_{gone.kind}", detail=str(gone), gone=gone)
