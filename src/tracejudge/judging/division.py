"""Which calls judge one trace: its texts divided over the window of a judge's model, before anything is asked.

`packing` holds the rule; this is what it comes to for one judge and one trace. Estimates count by it as well, so that
what a run is said to take is what it takes at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from tracejudge.judging.packing import Piece, cut, most_section_tokens, pack, room_tokens, section_tokens
from tracejudge.judging.prompts import variables
from tracejudge.judging.specs.kinds import Kind
from tracejudge.judging.specs.options import GuidelineOptions
from tracejudge.judging.specs.spec import JudgeSpec

LEAST_PART_TOKENS: Final = 64
"""Where less than this is left for passages or a part of the response, the window is too small to judge by."""


class Turn(NamedTuple):
    """One earlier turn of the conversation."""

    role: str
    text: str


class Texts(Protocol):
    """The texts of one answer, as far as they are known; "" and () where they are not."""

    @property
    def query(self) -> str: ...
    @property
    def response(self) -> str: ...
    @property
    def passages(self) -> tuple[str, ...]: ...
    @property
    def reference(self) -> str: ...
    @property
    def history(self) -> tuple[Turn, ...]: ...
    @property
    def second_response(self) -> str: ...


class Division(NamedTuple):
    """The calls for one answer: each part of the response with each pack of passages."""

    history: tuple[Turn, ...]  # the turns that go in
    responses: list[str]
    packs: list[list[Piece]]


class TooLong(NamedTuple):
    """The trace cannot be judged by this judge, and why."""

    detail: str


def plain_texts(spec: JudgeSpec) -> dict[str, str]:
    """Texts of the judge's owner that its prompt names, by variable."""
    options = spec.kind_options
    if not isinstance(options, GuidelineOptions):
        return {}
    return {"guidelines": "\n".join(f"{number}. {text}" for number, text in enumerate(options.guidelines, start=1))}


class Room:
    """The space for texts in one call of a judge of a built-in kind."""

    def __init__(self, spec: JudgeSpec, kind: Kind) -> None:
        prompt = spec.prompt_text()
        self._spec = spec
        self._kind = kind
        self._reads = variables(prompt, kind.aliases)
        self.tokens: Final = room_tokens(
            window=spec.context_window_tokens, reply=spec.most_reply_tokens, prompt=[spec.system_text(), prompt]
        )
        self._beside_plain = self.tokens - sum(map(section_tokens, plain_texts(spec).values()))

    def divide(self, texts: Texts) -> Division | TooLong:
        """The calls that judge these texts together."""
        reads = self._reads
        passages = texts.passages if "context" in reads else ()
        response = texts.response if "response" in reads else ""
        if not texts.history and _surely_fits(texts, self._beside_plain):
            # Nearly always: whatever the texts say, they fit, and nobody need count their tokens.
            return Division((), [response], [_whole(passages)])
        history = self.recent(texts.history) if "query" in reads else ()
        room = self._beside_plain - sum(map(section_tokens, self._fixed(texts, history)))
        if section_tokens(response) + sum(map(section_tokens, passages)) <= room:
            return Division(history, [response], [_whole(passages)])
        return self._parts(history, response, passages, room)

    def _parts(
        self, history: tuple[Turn, ...], response: str, passages: Sequence[str], room: int
    ) -> Division | TooLong:
        for_response = room if not passages else room // 2
        responses = [response]
        if section_tokens(response) > for_response:
            if self._kind.response_parts == "whole" and response:
                return self.too_long("the response")
            if for_response < LEAST_PART_TOKENS:
                return self.too_long("the question with its conversation and reference")
            responses = cut(response, for_response - section_tokens(""))
        for_passages = room - max(map(section_tokens, responses))
        if passages and for_passages < LEAST_PART_TOKENS + section_tokens(""):
            return self.too_long("the question with its conversation and reference")
        packs = pack(passages, for_passages) if passages else [[]]
        if len(packs) > 1 and self._kind.passage_parts == "whole":
            return self.too_long("the passages")
        needed = len(packs) * len(responses)
        if needed > self._spec.max_calls_per_trace:
            return TooLong(
                f"judging it in parts takes up to {needed} calls, and max_calls_per_trace is "
                f"{self._spec.max_calls_per_trace}; raise it, or take a model with a larger window"
            )
        return Division(history, responses, packs)

    def pair(self, texts: Texts) -> tuple[Turn, ...] | TooLong:
        """The turns that go in beside two whole answers, which are not divided."""
        history = self.recent(texts.history)
        if sum(map(section_tokens, _pair(texts, history))) > self.tokens:
            return self.too_long("the two answers with their question")
        return history

    def calls(self, texts: Texts) -> list[int]:
        """Tokens of the judged texts in each call that judging them takes at most, the prompt's own not counted; none
        where they do not fit."""
        if self._kind.calls == 2:
            turns = self.pair(texts)
            return [] if isinstance(turns, TooLong) else 2 * [sum(map(section_tokens, _pair(texts, turns)))]
        found = self.divide(texts)
        if isinstance(found, TooLong):
            return []
        fixed = sum(map(section_tokens, self._fixed(texts, found.history)))
        return [
            fixed + section_tokens(response) + sum(section_tokens(piece.text) for piece in pack)
            for response in found.responses
            for pack in found.packs
        ]

    def recent(self, history: Sequence[Turn]) -> tuple[Turn, ...]:
        """The latest turns that fit into a quarter of the room, in their order."""
        kept: list[Turn] = []
        tokens = self.tokens // 4
        for turn in reversed(history):
            tokens -= section_tokens(turn.text)
            if tokens < 0:
                break
            kept.append(turn)
        return tuple(reversed(kept))

    def too_long(self, what: str) -> TooLong:
        return TooLong(
            f"{what} does not fit into context_window_tokens = {self._spec.context_window_tokens} beside the prompt "
            f"and {self._spec.most_reply_tokens} tokens of reply; take a model with a larger window"
        )

    def _fixed(self, texts: Texts, history: Sequence[Turn]) -> list[str]:
        """The texts that go into every call."""
        fixed = [*(turn.text for turn in history), texts.query] if "query" in self._reads else []
        if "reference" in self._reads and texts.reference:
            fixed.append(texts.reference)
        return fixed


def _pair(texts: Texts, history: Sequence[Turn]) -> list[str]:
    other = texts.second_response or texts.reference
    return [*(turn.text for turn in history), texts.query, texts.response, other]


def _whole(passages: Sequence[str]) -> list[Piece]:
    return [Piece(number, 0, text) for number, text in enumerate(passages, start=1)]


def _surely_fits(texts: Texts, room: int) -> bool:
    """True where all texts but the conversation come to no more than `room`, however many bytes a character has."""
    chars = len(texts.query) + len(texts.response) + len(texts.reference) + sum(map(len, texts.passages))
    return most_section_tokens(chars=chars, texts=3 + len(texts.passages)) <= room
