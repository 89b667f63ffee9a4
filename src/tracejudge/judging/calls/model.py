"""A judge's model behind its guard and its meter: ask, and get a reply or a reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tracejudge.judging.calls.client import Completer, Completion, Message
from tracejudge.judging.calls.failures import CallError
from tracejudge.judging.calls.guard import Failure, Guard
from tracejudge.judging.calls.meter import Counted, Meter
from tracejudge.judging.packing import text_tokens
from tracejudge.judging.specs.spec import JudgeSpec


class JudgeModel:
    """The model of one judge."""

    def __init__(self, spec: JudgeSpec, *, completer: Completer, guard: Guard, meter: Meter) -> None:
        self._completer = completer
        self._guard = guard
        self._meter = meter
        self._answered: Sequence[Message] = ()
        self._window, self._most_reply = spec.context_window_tokens, spec.max_tokens or 0
        self._stops_at_once = bool(getattr(completer, "stops_at_once", False))

    async def ask(self, request: Callable[[], Sequence[Message]]) -> Completion | Failure:
        """The reply, after as many attempts as the spec allows, or why there is none.

        `request` is made for the first attempt, and not before it has its slot: what waits in line holds no prompt, and
        prompts whose turn comes later keep no loop from the calls in flight.
        """
        made: list[Sequence[Message]] = []

        def attempt() -> Awaitable[Completion]:
            if not made:
                made.append(request())
            return self.ask_once(made[0])

        return await self._guard.run(attempt)

    async def ask_once(self, messages: Sequence[Message]) -> Completion:
        """One call, without slot, circuit or further attempts: for callers that run inside a guard of their own."""
        input_tokens = sum([text_tokens(item.content) for item in messages])
        needed = input_tokens + self._most_reply
        if needed > self._window:
            raise CallError(
                f"about {needed} tokens do not fit context_window_tokens = {self._window}",
                status=400,
                code="context_length_exceeded",
            )
        reply = await self._meter.call(
            lambda: self._completer.complete(messages),
            input_tokens=input_tokens,
            counted=_counted,
            stops_at_once=self._stops_at_once,
        )
        if not self._answered:
            self._answered = messages
            self._guard.control = lambda: self.ask_once(self._answered)
        return reply

    async def close(self) -> None:
        await self._completer.close()


def _counted(reply: Completion) -> Counted:
    return Counted(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens, model=reply.model)
