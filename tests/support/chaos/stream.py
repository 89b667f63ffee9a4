"""The stream of a chaos run and its oracle: what is sent, and what must stand in the store at the end.

Everything follows from the seed: texts, verdicts, which traces are poison, come twice, come as two parts, and what the
judge does to each. Nothing here depends on time, on the order of processing or on how often a record is delivered.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from tests.support.judge_reply import uniform
from tracejudge.scores import Decision, InvalidReason
from tracejudge.testing import make_trace
from tracejudge_sdk.codec import encode
from tracejudge_sdk.sampling import TAIL_SALT, keep
from tracejudge_sdk.trace import Trace, TracePart

FAITHFUL: Final = "faithful"
"""A judge by a model over HTTP, which sees every trace."""
LEXICAL: Final = "lexical"
"""The heuristic, which sees half of them."""
LEXICAL_RATE: Final = 0.5

PARTITIONS: Final = 6
BLOCK: Final = 25
"""Traces in a row on which the judge has the same trouble: one storm, one hang."""

Trouble = Literal["", "storm", "hang", "babble", "error", "silence"]
"""What the judge does to a trace: answers; refuses the first two attempts with 429; hangs on the first one; replies
what is no verdict; answers every attempt with 500; never answers."""

Kind = Literal["whole", "parts", "no_context", "incomplete"]
Fate = str
"""passed, failed, a ledger decision, or invalid: and the reason."""

_INVALID: Final[dict[Trouble, Fate]] = {
    "babble": f"invalid: {InvalidReason.UNPARSABLE.value}",
    "error": f"invalid: {InvalidReason.JUDGE_ERROR.value}",
    "silence": f"invalid: {InvalidReason.JUDGE_TIMEOUT.value}",
}

_POISON: Final = (
    (b"{", "not_json"),
    (b"\xff\xfe", "not_utf8"),
    (b"[]", "not_an_object"),
    (b'{"schema_version": 2, "kind": "trace"}', "schema_too_new"),
    (b'{"schema_version": 1, "kind": "trace", "trace_id": 7}', "invalid_field"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One record for the topic. `number` is that of its trace, or None for poison."""

    partition: int
    key: bytes
    value: bytes
    number: int | None
    poison: str = ""  # the reason with which it must become a dead letter
    again: bool = False  # a copy of one sent before


@dataclass(frozen=True, kw_only=True)
class Stream:
    """`traces` traces drawn from `seed`, sent in `slices` slices, one for each fault that is injected."""

    seed: int
    traces: int
    slices: int

    def kind(self, number: int) -> Kind:
        drawn = uniform("kind", self.seed, number)
        return "parts" if drawn < 0.02 else "no_context" if drawn < 0.03 else "incomplete" if drawn < 0.04 else "whole"

    def trouble(self, number: int) -> Trouble:
        """What the judge does to this trace, in every process and at every delivery alike."""
        block = number // BLOCK
        if block in self.blocks("storm"):
            return "storm"
        if block in self.blocks("hang"):
            return "hang"
        drawn = uniform("trouble", self.seed, number)
        if drawn < 0.01:
            return "babble"
        if drawn < 0.015:
            return "error"
        # Early ones only: at the end the whole run would wait for their three timeouts.
        return "silence" if drawn < 0.0155 and number < self.traces // 2 else ""

    def blocks(self, trouble: Literal["storm", "hang"]) -> frozenset[int]:
        """The blocks of traces that are a storm or a hang: one in sixty of each; one in a short run, else five."""
        return self._troubled[trouble]

    @cached_property
    def _troubled(self) -> dict[str, frozenset[int]]:
        blocks = range(self.traces // BLOCK * 4 // 5)
        # A judge that hangs opens its circuit, and each opening is waited out: in a short run one of each is enough.
        each = max(5, len(blocks) // 60) if self.traces >= 2_000 else 1
        drawn = random.Random(f"blocks/{self.seed}").sample(blocks, 2 * each)
        return {"storm": frozenset(drawn[:each]), "hang": frozenset(drawn[each:])}

    def passes(self, number: int) -> bool:
        """What the model finds where it says anything."""
        return uniform("verdict", self.seed, number) < 0.8

    def trace(self, number: int) -> Trace:
        """The whole trace, however it is sent."""
        kind = self.kind(number)
        words = _WORDS[int(uniform("words", self.seed, number) * len(_WORDS))]
        fields: dict[str, object] = {"response": f"The limit of plan {number} is {words}.", "app": "chaos"}
        if kind == "no_context":
            fields["source_nodes"] = []
        if kind == "incomplete":
            fields["status"] = "incomplete"
        return make_trace(number, **fields)

    def expected(self, number: int, *, lexical: Fate) -> dict[str, Fate]:
        """What becomes of it, by judge. `lexical` is what the heuristic says where it is asked."""
        kind = self.kind(number)
        unjudged = {"incomplete": Decision.INCOMPLETE.value, "no_context": Decision.NOT_APPLICABLE.value}.get(kind)
        invalid = _INVALID.get(self.trouble(number))
        verdict = "passed" if self.passes(number) else "failed"
        sampled = keep(self.trace_id(number), LEXICAL_RATE, TAIL_SALT)
        return {
            FAITHFUL: unjudged or invalid or verdict,
            LEXICAL: (unjudged or lexical) if sampled else Decision.SAMPLED_OUT.value,
        }

    @staticmethod
    def trace_id(number: int) -> str:
        return f"t-{number:06d}"

    def messages(self) -> list[list[Message]]:
        """The records in the order of sending, cut into slices."""
        rng = random.Random(f"messages/{self.seed}")
        flat: list[Message] = []
        waiting: list[tuple[int, Message]] = []  # copies and first parts that come later, with when
        for number in range(self.traces):
            last = self._end(number) if self.kind(number) == "parts" else self._whole(number)
            flat.append(last)
            if rng.random() < 0.03:
                waiting.append((len(flat) + rng.choice((1, 20, 400)), _copy(last)))
            if self.kind(number) == "parts":
                # The start of the answer comes after its end, on another partition: on another consumer, as a rule.
                waiting.append((len(flat) + rng.randrange(200, 400), self._start(number)))
            if rng.random() < max(0.002, 12 / self.traces):
                flat.append(self._poison(rng))
            due = [one for at, one in waiting if at <= len(flat)]
            waiting = [(at, one) for at, one in waiting if at > len(flat)]
            flat += due
        flat += [one for _, one in waiting]
        size = -(-len(flat) // self.slices)
        return [flat[at : at + size] for at in range(0, len(flat), size)]

    def _whole(self, number: int) -> Message:
        return self._message(number, encode(self.trace(number)))

    def _end(self, number: int) -> Message:
        trace = self.trace(number)
        part = TracePart(
            trace_id=trace.trace_id,
            app=trace.app,
            event_time=trace.event_time,
            final=True,
            version=trace.version,
            response=trace.response,
            source_nodes=trace.source_nodes,
        )
        return self._message(number, encode(part))

    def _start(self, number: int) -> Message:
        trace = self.trace(number)
        part = TracePart(trace_id=trace.trace_id, app=trace.app, event_time=trace.event_time, query=trace.query)
        return self._message(number, encode(part), shift=1)

    def _message(self, number: int, value: bytes, *, shift: int = 0) -> Message:
        partition = (number + shift) % PARTITIONS
        return Message(partition=partition, key=self.trace_id(number).encode(), value=value, number=number)

    def _poison(self, rng: random.Random) -> Message:
        value, reason = rng.choice(_POISON)
        return Message(partition=rng.randrange(PARTITIONS), key=b"poison", value=value, number=None, poison=reason)


def _copy(message: Message) -> Message:
    return Message(partition=message.partition, key=message.key, value=message.value, number=message.number, again=True)


_WORDS: Final = (
    "ten users",
    "ten users per account",
    "twelve zebras on the moon",
    "decided by a committee of otters",
    "ten users, and nothing beyond",
)
