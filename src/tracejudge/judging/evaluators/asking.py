"""What every judge by a model does: build the request, ask, read the reply by its shape, in parts if need be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from tracejudge.judging.calls.client import Completion, Message
from tracejudge.judging.calls.guard import Failure
from tracejudge.judging.calls.model import JudgeModel
from tracejudge.judging.division import Division, Room, TooLong, Turn, plain_texts
from tracejudge.judging.evaluators.base import Facts, FactsEvaluator
from tracejudge.judging.packing import Piece
from tracejudge.judging.prompts import parts
from tracejudge.judging.prompts.fence import clean, fenced, is_clean, new_code
from tracejudge.judging.prompts.hints import suspicious
from tracejudge.judging.replies.judgement import (
    FEEDBACK_CHARS,
    NO_JUDGEMENT,
    RAW_REPLY_CHARS,
    Judgement,
    failed_call,
    invalid,
)
from tracejudge.judging.replies.verdict import (
    Choice,
    Number,
    Unreadable,
    Verdict,
    parse_choice,
    parse_number,
    parse_verdict,
)
from tracejudge.judging.specs.shapes import MOST_STATEMENTS, UNSUPPORTED, Shape
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.scores import InvalidReason

Sections = Mapping[str, Sequence[tuple[str, str]]]
"""Variable of the prompt to the (name, text) of what stands in its place, each between markers of its own."""

Reading = Verdict | Number | Choice


class Asked(NamedTuple):
    """A reply and how it was read."""

    reading: Reading
    reply: Completion


class ModelEvaluator(FactsEvaluator):
    """A judge that puts one question to a model for each part of an answer, and combines by its kind's rule."""

    def __init__(self, model: JudgeModel, spec: JudgeSpec) -> None:
        kind = spec.built_in
        if kind is None or kind.shape is None:
            raise ValueError(f"kind {spec.kind!r} asks no model")
        self.needs = kind.needs
        self._model = model
        self._spec = spec
        self._kind = kind
        self._word = "Not supported" if kind.shape is UNSUPPORTED else "Broken"
        self._read = _reader(kind.shape)
        self._system = spec.system_text().split("{code}")
        self._prompt = parts(spec.prompt_text(), kind.aliases)
        self._blank = {**dict.fromkeys(kind.variables, ""), **plain_texts(spec)}
        self.room = Room(spec, kind)

    # ------------------------------------------------------------------ one call

    def request(self, sections: Sections) -> list[Message]:
        """Our rules, then the prompt with each judged text between markers and the texts of the judge's owner."""
        # Looked at once, all together: what each text would have to be searched for takes longer to begin than to do.
        whole = "\n".join([text for texts in sections.values() for _, text in texts])
        code = new_code((whole,))
        cleaned = is_clean(whole)
        filled: list[str] = []
        for place, part in enumerate(self._prompt):
            if place % 2 == 0:
                filled.append(part)
            elif part in sections:
                for number, (name, text) in enumerate(sections[part]):
                    filled += fenced(name, text if cleaned else clean(text), code, "\n\n" if number else "")
            else:
                filled.append(self._blank[part])
        return [Message("system", code.join(self._system)), Message("user", "".join(filled))]

    async def ask(self, sections: Sections) -> Asked | Judgement:
        """The reading of one reply, or the judgement that there is none."""
        reply = await self._model.ask(partial(self.request, sections))
        if isinstance(reply, Failure):
            return failed_call(reply)
        if reply.refusal:
            return _with(
                invalid(InvalidReason.REFUSED, "the endpoint refused or filtered the reply", raw_reply=reply.text),
                reply,
            )
        reading = self._read(reply.text)
        if isinstance(reading, Unreadable):
            cut_off = " (cut at max_tokens)" if reply.finish_reason == "length" else ""
            return _with(invalid(reading.reason, f"{reading.detail}{cut_off}", raw_reply=reply.text), reply)
        return Asked(reading, reply)

    # ------------------------------------------------------------------ parts

    async def judge(self, facts: Facts) -> Judgement:
        """Yes or no over all parts; judges with other replies have a `judge` of their own."""
        plan = self.plan(facts)
        if isinstance(plan, Judgement):
            return plan
        asked: list[Asked] = []
        yes = self._kind.response_parts != "any"
        decisive: Verdict | None = None
        for response in plan.responses:
            found = await self._over_passages(facts, plan, response, asked)
            if isinstance(found, Judgement):
                return _with_all(found, asked)
            decisive = found
            if found.yes is not yes:
                break
        if decisive is None:
            raise AssertionError("a plan has at least one call")
        return self.verdict(decisive, asked, facts)

    async def _over_passages(
        self, facts: Facts, plan: Division, response: str, asked: list[Asked]
    ) -> Verdict | Judgement:
        """One verdict on one part of the response: over the passages any part may say yes."""
        carries = self._kind.passage_parts == "carry"
        open_text, last = response, None
        for pieces in plan.packs:
            found = await self.ask(sections_of(facts, plan, open_text, pieces))
            if isinstance(found, Judgement):
                return found
            asked.append(found)
            if not isinstance(found.reading, Verdict):
                raise TypeError(f"kind {self._spec.kind!r} replies with no verdict")
            last = found.reading
            if last.yes:
                break
            if carries:
                left = last.statements
                open_text = "\n".join(f"- {text}" for text in left) if 0 < len(left) < MOST_STATEMENTS else response
        if last is None:
            raise AssertionError("a plan has at least one call")
        return last

    def plan(self, facts: Facts) -> Division | Judgement:
        """Which calls judge these facts, or invalid / bad_request where they need more than the spec allows."""
        found = self.room.divide(facts)
        return too_long(found) if isinstance(found, TooLong) else found

    # ------------------------------------------------------------------ results

    def verdict(self, found: Verdict, asked: Sequence[Asked], facts: Facts) -> Judgement:
        """A yes or no as a judgement."""
        feedback = "\n".join([f"{self._word}: {text}" for text in found.statements]) or found.explanation
        return self.finished(asked, facts, passing=found.yes, score=1.0 if found.yes else 0.0, feedback=feedback)

    def finished(
        self,
        asked: Sequence[Asked],
        facts: Facts,
        *,
        passing: bool,
        score: float,
        feedback: str,
        flags: tuple[str, ...] = (),
    ) -> Judgement:
        """A verdict with its flags, the raw replies, and what the endpoint reported."""
        if len(asked) > self._kind.calls:
            flags += ("in_parts",)
        if suspicious(judged_texts(facts)):
            flags += ("suspected_injection",)
        last = asked[-1].reply
        raw = last.text if len(asked) == 1 else _SEPARATOR.join([one.reply.text for one in asked])
        return NO_JUDGEMENT.but(
            passing=passing,
            score=score,
            feedback=feedback[:FEEDBACK_CHARS],
            flags=flags,
            raw_reply=raw[:RAW_REPLY_CHARS],
            model_reported=last.model,
            fingerprint=last.fingerprint,
        )


_SEPARATOR: Final = "\n---\n"
"""Between the raw replies of several calls."""


def sections_of(facts: Facts, division: Division, response: str, pieces: Sequence[Piece]) -> Sections:
    """The values of the prompt's variables in one call, for a part of the response and a pack of passages."""
    reference = facts.reference
    return {
        "query": question_sections(facts.query, division.history),
        "response": [("RESPONSE", response)],
        "context": [(piece.name, piece.text) for piece in pieces],
        "reference": [("REFERENCE", reference)] if reference else [],
    }


def question_sections(query: str, history: Sequence[Turn]) -> list[tuple[str, str]]:
    """The question, after the conversation it belongs to."""
    if not history:
        return [("QUESTION", query)]
    turns = [
        (f"CONVERSATION {number} {_ROLES.get(turn.role, 'OTHER')}", turn.text)
        for number, turn in enumerate(history, start=1)
    ]
    return [*turns, ("QUESTION", query)]


_ROLES: Final = {"user": "USER", "assistant": "ASSISTANT", "system": "SYSTEM", "tool": "TOOL"}


def judged_texts(facts: Facts) -> list[str]:
    """Every text that came from outside."""
    return [
        facts.query,
        facts.response,
        facts.second_response,
        facts.reference,
        *facts.passages,
        *[turn.text for turn in facts.history],
    ]


def too_long(found: TooLong) -> Judgement:
    """A trace that does not fit the judge's window is invalid, without a call."""
    return invalid(InvalidReason.BAD_REQUEST, found.detail)


def _reader(shape: Shape) -> Callable[[str], Reading | Unreadable]:
    if "score" in shape.fields:
        return partial(parse_number, low=1.0, high=5.0)
    if "better" in shape.fields:
        return parse_choice
    against = next((name for name in ("unsupported", "broken") if name in shape.fields), "unsupported")
    return _remembering(partial(parse_verdict, against=against))


_SHORT_CHARS: Final = 200


def _remembering(read: Callable[[str], Reading | Unreadable]) -> Callable[[str], Reading | Unreadable]:
    """`read`, which depends on the text alone, with its last short texts in mind: most replies are the same YES."""
    remembered = lru_cache(maxsize=256)(read)

    def read_reply(text: str) -> Reading | Unreadable:
        return remembered(text) if len(text) <= _SHORT_CHARS else read(text)

    return read_reply


def _with(result: Judgement, reply: Completion) -> Judgement:
    return result.but(model_reported=reply.model, fingerprint=reply.fingerprint)


def _with_all(result: Judgement, asked: Sequence[Asked]) -> Judgement:
    """A failure with the raw replies before it, in the order of asking, and who gave the last one."""
    if not asked:
        return result
    last = asked[-1].reply
    texts = [one.reply.text for one in asked]
    if result.raw_reply:
        texts.append(result.raw_reply)
    return result.but(
        raw_reply=_SEPARATOR.join(texts)[:RAW_REPLY_CHARS],
        model_reported=result.model_reported or last.model,
        fingerprint=result.fingerprint or last.fingerprint,
    )
