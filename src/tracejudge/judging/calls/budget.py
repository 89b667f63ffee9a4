"""Hard caps, kept before each call: of one judge, of all judges together, of one run.

Money is set aside for a call in flight and replaced by what it cost. A call that would fit if those in flight turned
out free waits for them: over budget is only what does not fit beside money really spent. What a cap means across the
processes of a fleet stands in `account`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import Final, NamedTuple

from tracejudge.clock import Clock
from tracejudge.errors import ServiceUnavailable, TraceJudgeError
from tracejudge.judging.calls.account import Account, Window
from tracejudge.judging.calls.failures import OverBudget, SpendUnknown
from tracejudge.judging.calls.loops import Turnstile
from tracejudge.judging.specs.caps import Span
from tracejudge.judging.tasks import RunCaps

_LOG: Final = logging.getLogger(__name__)

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 30.0
_ALWAYS: Final = Span(datetime.min.replace(tzinfo=timezone.utc), datetime.max.replace(tzinfo=timezone.utc))


class Hold(NamedTuple):
    """The amount reserved for one admitted call, to be settled once."""

    usd: float
    at: datetime
    money: tuple[Window, ...]
    calls: tuple[Window, ...]


class RunBudget:
    """The remaining budget of all judges of one run together."""

    def __init__(self, caps: RunCaps) -> None:
        self._caps = caps
        self._calls = 0
        self.purse: Final = Window(_ALWAYS, float("inf") if caps.max_usd is None else caps.max_usd)
        self.settled: Final = Turnstile()
        """Opens whenever a call of any judge is settled."""

    def fits(self, usd: float) -> bool:
        """False while it hangs on calls in flight whether one of at most `usd` may be made. Raises OverBudget."""
        most_calls = self._caps.max_calls
        if most_calls is not None and self._calls + 1 > most_calls:
            raise OverBudget("max_calls", f"all {most_calls} calls of this run have been made")
        fits = self.purse.fits(usd)
        if fits is False:
            raise OverBudget(
                "max_usd",
                f"{self.purse.used:.4f} of {self._caps.max_usd:g} USD of this run are spent; "
                f"this call may cost {usd:.4f}",
            )
        return fits is True

    def count(self, calls: int) -> None:
        """So many calls more, or (negative) none after all."""
        self._calls += calls


class Budget:
    """The remaining budget of one judge, with the accounts that it shares. `sleep` is handed in by tests."""

    def __init__(
        self,
        judge_name: str,
        accounts: Sequence[Account],
        *,
        clock: Clock,
        run: RunBudget,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._name = judge_name
        self._accounts = tuple(accounts)
        self._in_money = [account for account in self._accounts if account.cap.unit == "usd"]
        self._in_calls = [account for account in self._accounts if account.cap.unit == "calls"]
        self._leased = any(account.leased for account in self._accounts)
        self._clock = clock
        self._run = run
        self._sleep = sleep
        self._ahead: set[asyncio.Task[None]] = set()

    @property
    def known(self) -> bool:
        """True when what may be spent in the present windows is known."""
        return not self._accounts or self._known(self._clock.now())

    async def seed(self) -> None:
        """Reads what may be spent in the present windows, unless it is known. Raises what the store raises."""
        if self.known:
            return
        now = self._clock.now()
        for account in self._accounts:
            if not account.known(now):
                await account.open_window(now)

    async def ready(self) -> None:
        """Seeds, and waits while the store is away, for ever if need be: a trace in hand is not given up because an
        hour turned. Raises SpendUnknown where the store refuses to say what was spent, which no waiting mends."""
        if not self.known:
            await self._answered(self.seed)

    async def admit(self, usd: float) -> Hold:
        """Counts one call of at most `usd` and sets the money aside; waits where that hangs on calls in flight, or on a
        store that is away. Raises OverBudget when a cap is reached, before anything is spent, and SpendUnknown."""
        while True:
            now = self._clock.now()
            if self._accounts and not self._known(now):
                await self._answered(self.seed)
                continue
            # No await from here to the hold: calls are admitted one at a time.
            fits = [account.fits(usd) for account in self._accounts]
            if self._run.fits(usd) and all(fits):
                return self._hold(usd, now)
            monotonic = self._clock.monotonic()
            short = [account for account, fit in zip(self._accounts, fits, strict=True) if not fit]
            if claimable := [account for account in short if account.may_claim(monotonic)]:
                await self._answered(partial(self._claim, claimable, usd))
                continue
            for account, fit in zip(self._accounts, fits, strict=True):
                if fit is False:
                    raise account.over(usd)
            await self._run.settled.wait()

    def settle(self, hold: Hold, *, usd: float, made: bool = True) -> None:
        """Replaces what `admit` set aside by what the call cost, in the windows it was admitted in. `made` False: there
        was no call after all (it never reached the endpoint)."""
        for window in hold.money:
            window.settle(hold.usd, usd)
        if not made:
            self._run.count(-1)
            for window in hold.calls:
                window.used -= 1.0
        self._run.settled.open()

    async def close(self) -> None:
        """Gives back what was not used. A store that is away keeps it until the window ends."""
        for task in tuple(self._ahead):
            if task.get_loop() is asyncio.get_running_loop():
                task.cancel()
        for account in self._accounts:
            with contextlib.suppress(TraceJudgeError):
                await account.close()

    def _known(self, now: datetime) -> bool:
        for account in self._accounts:
            window = account.window
            if window is None or not window.span.start <= now < window.span.end:
                return False
        return True

    def _hold(self, usd: float, now: datetime) -> Hold:
        self._run.count(1)
        # Windows are known here, and which of them count money does not change.
        money = (self._run.purse, *[account.present for account in self._in_money])
        calls = tuple([account.present for account in self._in_calls])
        for window in calls:
            window.used += 1.0
        for window in money:
            window.hold(usd)
        if self._leased:
            self._ask_ahead()
        return Hold(usd, now, money, calls)

    def _ask_ahead(self) -> None:
        """Asks for the next share before the present one is used up."""
        if self._ahead:
            return
        monotonic = None
        low = []
        for account in self._accounts:
            if account.leased and account.low():
                monotonic = self._clock.monotonic() if monotonic is None else monotonic
                if account.may_claim(monotonic):
                    low.append(account)
        if low:
            task = asyncio.ensure_future(self._claim_ahead(low))
            self._ahead.add(task)
            task.add_done_callback(self._ahead.discard)

    async def _claim_ahead(self, accounts: Sequence[Account]) -> None:
        # A store that is away is met again by the call that needs the share, which waits for it.
        with contextlib.suppress(TraceJudgeError):
            await self._claim(accounts, 0.0)

    async def _claim(self, accounts: Sequence[Account], usd: float) -> None:
        for account in accounts:
            await account.claim_more(usd, self._clock.monotonic)

    async def _answered(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Repeats `ask` while the store is away."""
        wait_s = FIRST_WAIT_S
        while True:
            try:
                await ask()
                return
            except ServiceUnavailable as error:
                if wait_s == FIRST_WAIT_S:
                    _LOG.warning("judge %r waits: its spending cannot be read: %r", self._name, str(error))
                await self._sleep(wait_s)
                wait_s = min(2.0 * wait_s, LONGEST_WAIT_S)
            except Exception as error:  # the source is anybody's class, and without an answer nothing may be spent
                raise SpendUnknown(f"judge {self._name!r}: cannot read its spending: {error}") from error
