"""A judge's model that replies as a script says, without a network: for tests of code that judges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tracejudge.judging.calls.client import Completion, Message


class _Hang:
    """A reply that never comes."""


HANG: Final = _Hang()

Reply = str | Completion | BaseException | _Hang


class ScriptedJudge:
    """Replies with `script`: one reply for all, replies in order (the last one repeats), or a function of the user
    message. An exception is raised, HANG waits for ever.

    `requests` holds the messages of every call, `prompts` their user messages; `most_in_flight` says how many calls
    were open at once at most.
    """

    def __init__(self, script: Reply | Iterable[Reply] | Callable[[str], Reply]) -> None:
        self.requests: list[tuple[Message, ...]] = []
        self.most_in_flight = 0
        self._in_flight = 0
        self._function: Callable[[str], Reply] | None = None
        if isinstance(script, (str, Completion, BaseException, _Hang)):
            self._replies = [script]
        elif callable(script):
            self._function, self._replies = script, []
        else:
            self._replies = list(script)

    @property
    def calls(self) -> int:
        return len(self.requests)

    @property
    def prompts(self) -> list[str]:
        return [messages[-1].content for messages in self.requests]

    async def complete(self, messages: Sequence[Message]) -> Completion:
        self.requests.append(tuple(messages))
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            # A call takes longer, as a real one does, than it takes others to be begun beside it.
            for _ in range(2):
                await asyncio.sleep(0)
            reply = self._next(messages[-1].content)
            if isinstance(reply, _Hang):
                await asyncio.Event().wait()
                raise AssertionError("unreachable")
            if isinstance(reply, BaseException):
                raise reply
            if isinstance(reply, Completion):
                return reply
            sent = sum(len(message.content) for message in messages)
            return Completion(text=reply, input_tokens=sent // 4, output_tokens=len(reply) // 4, model="scripted")
        finally:
            self._in_flight -= 1

    async def close(self) -> None:
        """Nothing to close."""

    def _next(self, prompt: str) -> Reply:
        if self._function is not None:
            return self._function(prompt)
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
