"""What our evaluators share beside LlamaIndex's base class: the facts they judge by, wherever these come from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation.base import BaseEvaluator
from llama_index.core.prompts.mixin import PromptDictType

from tracejudge.judging.division import Turn
from tracejudge.judging.replies.judgement import Judgement, not_applicable
from tracejudge.judging.responses import TRACE, TraceResponse
from tracejudge_sdk.trace import Trace


class FixedPrompts:
    """Prompts are part of a JudgeId, so they come from the spec and cannot be changed behind its back."""

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        if prompts_dict:
            raise ValueError("a judge's prompt is part of its JudgeId: set `prompt` in its JudgeSpec instead")


def text_passages(contexts: Sequence[str] | None) -> list[str]:
    """The passages that hold text, in order."""
    return [text for text in contexts or () if text and not text.isspace()]


class Facts(NamedTuple):
    """Everything that is known of one answer. None and empty mean that it is not known."""

    query: str = ""
    response: str = ""
    passages: tuple[str, ...] = ()  # those with text
    node_ids: tuple[str, ...] = ()  # of all source nodes, in their order
    reference: str = ""
    history: tuple[Turn, ...] = ()
    expected_ids: tuple[str, ...] | None = None
    latency_ms: float | None = None
    second_response: str = ""  # the answer that a pairwise judge compares with, in place of the reference

    def lacks(self, need: str) -> bool:
        """True when what a judge needs is not there. Raises KeyError for a name that is no Need."""
        match need:
            case "query":
                return not self.query or self.query.isspace()
            case "response":
                return not self.response or self.response.isspace()
            case "context":
                return not self.passages
            case "reference":
                return not (self.reference.strip() or self.second_response.strip())
            case "expected_ids":
                return not self.expected_ids
            case "latency_ms":
                return self.latency_ms is None
        raise KeyError(need)


LACKING: Final = {
    "query": "the query is empty",
    "response": "there is no response text",
    "context": "no source node has text",
    "reference": "there is no reference answer",
    "expected_ids": "it is not known which passages were expected",
    "latency_ms": "the app did not say how long the answer took",
}


def facts_of(
    query: str | None, response: str | None, contexts: Sequence[str] | None, given: Mapping[str, Any]
) -> Facts:
    """The facts of an `aevaluate` call; those LlamaIndex has no place for are keyword arguments of the same names."""
    expected, latency, node_ids = given.get("expected_ids"), given.get("latency_ms"), given.get("node_ids")
    return Facts(
        query=query or "",
        response=response or "",
        passages=tuple(text_passages(contexts)),
        node_ids=tuple(map(str, node_ids)) if node_ids is not None else (),
        reference=_text(given.get("reference")),
        history=tuple(_turn(turn) for turn in given.get("history") or ()),
        expected_ids=tuple(map(str, expected)) if expected is not None else None,
        latency_ms=float(latency) if latency is not None else None,
        second_response=_text(given.get("second_response")),
    )


def facts_of_response(query: str | None, response: Response | None, given: Mapping[str, Any]) -> Facts:
    """The facts of an `aevaluate_response` call: of the trace behind the response, where there is one.

    A keyword argument wins over the trace.
    """
    if response is None:
        return facts_of(query, None, None, given)
    trace = trace_of(response)
    if trace is not None and given.keys() <= {"reference"}:
        return _facts_of_trace(trace, query, response.response, given)
    known: dict[str, Any] = {}
    if trace is not None:
        known = {
            "node_ids": [node.node_id or "" for node in trace.source_nodes],
            "reference": trace.reference,
            "history": trace.history,
            "expected_ids": trace.expected_ids,
            "latency_ms": trace.latency_ms,
        }
    else:
        known["node_ids"] = [node.node.node_id for node in response.source_nodes]
    return facts_of(query, response.response, texts_of(response), {**known, **given})


def _facts_of_trace(trace: Trace, query: str | None, response: str | None, given: Mapping[str, Any]) -> Facts:
    nodes = trace.source_nodes
    expected = trace.expected_ids
    return Facts(
        query or "",
        response or "",
        tuple([text for node in nodes if (text := node.text) and not text.isspace()]),
        tuple([node.node_id or "" for node in nodes]),
        _text(given.get("reference", trace.reference)),
        tuple(map(_turn, trace.history)) if trace.history else (),
        tuple(expected) if expected is not None else None,
        trace.latency_ms,
    )


def texts_of(response: Response | None) -> list[str] | None:
    """The passages' texts in order; nodes are not built for it where a trace has them."""
    if response is None:
        return None
    if isinstance(response, TraceResponse):
        return response.texts
    return [node.get_content() for node in response.source_nodes]


def trace_of(response: Response | None) -> Trace | None:
    """The trace that the response was rebuilt from, None for a response of LlamaIndex's own."""
    if isinstance(response, TraceResponse):
        return response.trace
    trace = (response.metadata or {}).get(TRACE) if response is not None else None
    return trace if isinstance(trace, Trace) else None


class FactsEvaluator(FixedPrompts, BaseEvaluator):
    """A judge of `Facts`. Where something it needs is lacking, it says so and is not asked."""

    needs: tuple[str, ...] = ()

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> Judgement:
        return await self.judge_if_possible(facts_of(query, response, contexts, kwargs))

    async def aevaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> Judgement:
        return await self.judge_if_possible(facts_of_response(query, response, kwargs))

    async def judge_if_possible(self, facts: Facts) -> Judgement:
        """The judgement, or not_applicable where a need is lacking."""
        for need in self.needs:
            if facts.lacks(need):
                return not_applicable(f"no_{need}", LACKING[need])
        return await self.judge(facts)

    @abstractmethod
    async def judge(self, facts: Facts) -> Judgement:
        """What the judge says; everything in `needs` is there."""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _turn(value: Any) -> Turn:
    if isinstance(value, Turn):
        return value
    if isinstance(value, Mapping):
        return Turn(_text(value.get("role")), _text(value.get("content")))
    # LlamaIndex's ChatMessage has a role that is an enum.
    role = getattr(value, "role", "")
    return Turn(str(getattr(role, "value", role)), _text(getattr(value, "content", "")))
