"""The judge of a chaos run: what it answers is fixed for each trace, and it writes down who asked."""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict

from tests.support.chaos.stream import Stream
from tests.support.judge_reply import JudgeRequest, Reply, rate_limit_exceeded, server_error, uniform

_NUMBER = re.compile(r"What is the limit of plan (\d+)\?")
_SAYS = {
    True: '{"unsupported": [], "verdict": "YES"}',
    False: '{"unsupported": ["The limit is another one."], "verdict": "NO"}',
}


class ChaosJudge:
    """A script for the judge server. Its counts may be read from any thread."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._bought: dict[int, set[str]] = defaultdict(set)
        self._late = 0
        self._asked: dict[str, set[int]] = defaultdict(set)
        self._storms: Counter[int] = Counter()
        self._hangs: Counter[int] = Counter()

    def __call__(self, request: JudgeRequest) -> Reply:
        found = _NUMBER.search(request.prompt)
        assert found is not None, "the prompt holds no question of the stream"
        number = int(found[1])
        reply = self._reply(number, request.attempt)
        with self._lock:
            self._asked[request.headers.get("authorization", "").removeprefix("Bearer ")].add(number)
            if reply.status == 429:
                self._storms[number] += 1
            elif reply.hang:
                self._hangs[number] += 1
            elif reply.status == 200 and self._stream.trouble(number) != "babble":
                # One evaluation has one prompt (its markers are drawn anew), so a second answer to the same prompt
                # says that the first came too late for its caller, and buys nothing new.
                evaluations = self._bought[number]
                self._late += request.prompt_hash in evaluations
                evaluations.add(request.prompt_hash)
        return reply

    def _reply(self, number: int, attempt: int) -> Reply:
        trouble = self._stream.trouble(number)
        if trouble == "silence" or (trouble == "hang" and attempt == 1):
            return Reply(hang=True)
        if trouble == "storm" and attempt <= 2:
            return rate_limit_exceeded(retry_after_s=0.05)
        if trouble == "error":
            return server_error()
        delay_s = 0.01 + 0.08 * uniform("delay", self._stream.seed, number)
        if trouble == "babble":
            return Reply("The answer might be fine, who knows.", delay_s=delay_s)
        return Reply(_SAYS[self._stream.passes(number)], delay_s=delay_s)

    @property
    def judged(self) -> int:
        """Distinct traces that got a verdict so far."""
        with self._lock:
            return len(self._bought)

    @property
    def late(self) -> int:
        """Answers to callers that had stopped waiting."""
        with self._lock:
            return self._late

    def bought(self) -> dict[int, int]:
        """How many verdicts were bought for each trace."""
        with self._lock:
            return {number: len(evaluations) for number, evaluations in self._bought.items()}

    def asked_by(self, key: str) -> set[int]:
        """The traces about which the holder of this API key has asked."""
        with self._lock:
            return set(self._asked[key])

    def troubled(self) -> tuple[set[int], set[int]]:
        """The traces that met a 429, and those that met a hang."""
        with self._lock:
            return set(self._storms), set(self._hangs)
