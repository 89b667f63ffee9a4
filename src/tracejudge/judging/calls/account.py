"""What this process may still take of one cap in its present window.

Without leases the whole of what the store says is left is ours, and processes side by side can pass a cap together.
With leases a process takes shares of what is left, one after the other, before it uses them: what all processes hold
together is never more than the cap. A share is a twentieth of the cap (at least ten calls), so what a process that dies
leaves unused until the window ends is at most that.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tracejudge.judging.calls.failures import OverBudget
from tracejudge.judging.calls.loops import PerLoop
from tracejudge.judging.specs.caps import ALL_JUDGES, Cap, Span
from tracejudge.judging.tasks import BudgetLeases, LeaseKey, SpendSource

SHARES: Final = 20
LEAST_SHARE_CALLS: Final = 10
ASK_AGAIN_S: Final = 30.0
"""Others may give back what they did not use: a cap that was found used up is asked about again after this."""


@dataclass(slots=True, eq=False)
class Window:
    """One window of an account: `allowed` is what this process may use in it, in calls or USD."""

    span: Span
    allowed: float
    before: float = 0.0  # spent before this process counted, as far as the store knew
    used: float = 0.0
    held: float = 0.0
    in_flight: int = 0
    used_up_until: float = float("-inf")  # there was nothing left to be claimed; others may give something back later

    def fits(self, amount: float) -> bool | None:
        """Whether `amount` may be used; None while that hangs on calls in flight."""
        if self.used + amount > self.allowed:
            return False
        return True if not self.in_flight or self.used + self.held + amount <= self.allowed else None

    def hold(self, amount: float) -> None:
        self.held += amount
        self.in_flight += 1

    def settle(self, held: float, amount: float) -> None:
        self.used += amount
        self.in_flight -= 1
        # Sums of floats leave crumbs, and nothing is held where nothing is in flight.
        self.held = max(0.0, self.held - held) if self.in_flight else 0.0

    @property
    def left(self) -> float:
        return self.allowed - self.used - self.held


class Account:
    """One cap as this process counts it."""

    def __init__(self, cap: Cap, *, source: SpendSource, leases: BudgetLeases | None, holder: str) -> None:
        self.cap = cap
        self.window: Window | None = None
        self._source = source
        self._leases = leases
        self._holder = holder
        self._asking = PerLoop(asyncio.Lock)
        self._asked: set[asyncio.Task[None]] = set()

    @property
    def leased(self) -> bool:
        return self._leases is not None

    @property
    def present(self) -> Window:
        """The window, which is known. Raises RuntimeError where it is not."""
        if self.window is None:
            raise RuntimeError(f"{self.cap.name}: nobody has asked what is left")
        return self.window

    def known(self, now: datetime) -> bool:
        """True when what may be used in the present window is known."""
        window = self.window
        return window is not None and window.span.start <= now < window.span.end

    def amount(self, usd: float) -> float:
        """The amount of this cap that a call of at most `usd` uses."""
        return 1.0 if self.cap.unit == "calls" else usd

    def fits(self, usd: float) -> bool | None:
        """Whether a call of at most `usd` fits; None while that hangs on calls in flight."""
        return False if self.window is None else self.window.fits(self.amount(usd))

    def share(self) -> float:
        """The size of the share that is claimed at a time."""
        share = self.cap.limit / SHARES
        return max(math.ceil(share), LEAST_SHARE_CALLS) if self.cap.unit == "calls" else share

    async def open_window(self, now: datetime) -> None:
        """Makes the present window known. Raises what the store raises."""
        await self._to_its_end(self._open_window(now))

    async def claim_more(self, usd: float, monotonic: Callable[[], float]) -> None:
        """Takes a further share, for a call of at most `usd`. Raises what the store raises."""
        await self._to_its_end(self._claim_more(usd, monotonic))

    async def _to_its_end(self, asking: Coroutine[Any, Any, None]) -> None:
        """Waits for the store's answer, which is taken in also when the caller no longer waits: a statement cannot be
        recalled, and a share that this process does not know of would stay unused until its window ends."""
        task = asyncio.ensure_future(asking)
        self._asked.add(task)
        task.add_done_callback(self._heard)
        await asyncio.shield(task)

    def _heard(self, task: asyncio.Task[None]) -> None:
        self._asked.discard(task)
        if not task.cancelled():
            task.exception()  # whoever still waits is told

    async def _open_window(self, now: datetime) -> None:
        async with self._asking.get():
            if self.known(now):
                return
            window = await asyncio.to_thread(self._read, now)
            if self.window is not None and self.window.span == window.span:
                # Another event loop was quicker. A share that was taken is ours all the same.
                self.window.allowed += window.allowed if self.leased else 0.0
            else:
                self.window = window

    async def _claim_more(self, usd: float, monotonic: Callable[[], float]) -> None:
        async with self._asking.get():
            window, need = self.window, self.amount(usd)
            if window is None or window.left >= max(need, self.share() / 2.0):
                return  # another call has just brought a share
            want = max(self.share(), need)
            amount = await asyncio.to_thread(self._claim, window.span, want)
            window.allowed += amount
            if amount < want:
                window.used_up_until = monotonic() + ASK_AGAIN_S

    def _read(self, now: datetime) -> Window:
        span = self.cap.span(now)
        if self._leases is not None:
            granted = self._claim(span, self.share())
            return Window(span, granted)
        spent = self._source.spent(self.cap.scope, span.start)
        before = float(spent.calls) if self.cap.unit == "calls" else spent.usd
        return Window(span, self.cap.limit - before, before)

    def _claim(self, span: Span, want: float) -> float:
        if self._leases is None:
            return 0.0
        return self._leases.claim(self._key(span), want=want, holder=self._holder)

    def _key(self, span: Span) -> LeaseKey:
        cap = self.cap
        return LeaseKey(scope=cap.scope, cap=cap.name, unit=cap.unit, limit=cap.limit, start=span.start, end=span.end)

    def may_claim(self, monotonic: float) -> bool:
        """False where there are no leases, or a moment ago there was nothing left to be had."""
        return self._leases is not None and (self.window is None or monotonic >= self.window.used_up_until)

    def low(self) -> bool:
        """True when it is time to ask for the next share, so that no call has to wait for it."""
        return self.window is not None and self.window.left < self.share() / 2.0

    async def close(self) -> None:
        """Returns what is not used, and with it what the running loop has just asked for. Raises what the store
        raises."""
        here = asyncio.get_running_loop()
        if asked := [task for task in tuple(self._asked) if task.get_loop() is here]:
            await asyncio.wait(asked)
        if self._leases is not None:
            await asyncio.to_thread(self._give_back)

    def _give_back(self) -> None:
        window, self.window = self.window, None
        if self._leases is not None and window is not None:
            self._leases.give_back(self._key(window.span), used=window.used, holder=self._holder)

    def over(self, usd: float) -> OverBudget:
        """The message for a call of at most `usd` that does not fit."""
        cap, window = self.cap, self.window
        of = "all judges together: " if cap.scope == ALL_JUDGES else ""
        when = "this hour" if cap.window == "hour" else "today"
        name = f"budget.{cap.name}" if cap.scope == ALL_JUDGES else cap.name
        if window is None:
            return OverBudget(name, f"{of}nothing is left {when}")
        shared = ", its share of a fleet's" if self.leased else ""
        if cap.unit == "calls":
            made = window.before + window.used
            return OverBudget(name, f"{of}{made:g} of {cap.limit:g} calls made {when}{shared}")
        spent = window.before + window.used
        return OverBudget(
            name, f"{of}{spent:.4f} of {cap.limit:g} USD spent {when}{shared}; this call may cost {usd:.4f}"
        )
