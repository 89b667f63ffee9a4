"""Faithfulness by a model: is every statement of the response supported by the passages?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.evaluation.base import BaseEvaluator

from tracejudge.judging.client import Completion, Message
from tracejudge.judging.evaluators.base import FixedPrompts, text_passages
from tracejudge.judging.guard import Failure
from tracejudge.judging.judgement import (
    FEEDBACK_CHARS,
    RAW_REPLY_CHARS,
    Judgement,
    failed_call,
    invalid,
    not_applicable,
)
from tracejudge.judging.model import JudgeModel
from tracejudge.judging.prompts import fill, read_prompt
from tracejudge.judging.prompts.fence import fence, new_code, suspicious
from tracejudge.judging.verdict import Unreadable, parse_verdict
from tracejudge.scores import InvalidReason


class FaithfulnessEvaluator(FixedPrompts, BaseEvaluator):
    """Score 1 and passing when the model finds every statement supported, else 0 with the unsupported statements."""

    def __init__(self, model: JudgeModel, *, prompt: str | None = None) -> None:
        self._model = model
        self._prompt = prompt if prompt is not None else read_prompt("faithfulness")

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> Judgement:
        passages = text_passages(contexts)
        if not passages:
            return not_applicable("no_context", "no passage with text")
        if response is None or not response.strip():
            return not_applicable("no_response", "no response text")
        reply = await self._model.ask(self.messages(query or "", response, passages))
        if isinstance(reply, Failure):
            return failed_call(reply)
        flags = ("suspected_injection",) if suspicious([query or "", response, *passages]) else ()
        return _judge(reply).model_copy(
            update={"flags": flags, "model_reported": reply.model, "fingerprint": reply.fingerprint}
        )

    def messages(self, query: str, response: str, passages: Sequence[str]) -> list[Message]:
        """The request: our rules, then the prompt with the judged texts between markers."""
        code = new_code([query, response, *passages])
        context = "\n\n".join(fence(f"PASSAGE {n}", text, code) for n, text in enumerate(passages, start=1))
        values = {
            "query": fence("QUESTION", query, code),
            "response": fence("RESPONSE", response, code),
            "context": context,
            "reference": fence("REFERENCE", "", code),
        }
        return [
            Message("system", read_prompt("system").replace("{code}", code)),
            Message("user", fill(self._prompt, values)),
        ]


def _judge(reply: Completion) -> Judgement:
    if reply.refusal:
        return invalid(InvalidReason.REFUSED, "the endpoint refused or filtered the reply", raw_reply=reply.text)
    verdict = parse_verdict(reply.text)
    if isinstance(verdict, Unreadable):
        cut = " (cut at max_tokens)" if reply.finish_reason == "length" else ""
        return invalid(verdict.reason, f"{verdict.detail}{cut}", raw_reply=reply.text)
    feedback = "\n".join(f"Not supported: {statement}" for statement in verdict.statements) or verdict.explanation
    return Judgement(
        passing=verdict.yes,
        score=1.0 if verdict.yes else 0.0,
        feedback=feedback[:FEEDBACK_CHARS],
        raw_reply=reply.text[:RAW_REPLY_CHARS],
    )
