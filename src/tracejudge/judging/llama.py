"""The two bridges to LlamaIndex's LLM classes: one of them as our judge's model, and our model as one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.llms.llm import LLM
from pydantic import PrivateAttr

from tracejudge.judging.calls.client import Completion, Message
from tracejudge.judging.calls.cost import tokens_of
from tracejudge.judging.calls.failures import CallError
from tracejudge.judging.calls.loops import PerLoop
from tracejudge.judging.calls.reported import name_reported, tokens_reported
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge_sdk.json_values import scrub_text

Ask = Callable[[Sequence[Message]], Awaitable[Completion]]

last_reply: Final[ContextVar[list[str] | None]] = ContextVar("tracejudge_last_reply", default=None)
"""The list that replies to an evaluator which is not ours are written to, as they came."""


class LlamaIndexLLM:
    """Any LlamaIndex LLM class as a Completer. One instance per event loop, since their clients hold connections."""

    def __init__(self, spec: JudgeSpec, llm_class: type[LLM], *, api_key: str | None) -> None:
        self._options = llm_options(spec, llm_class, api_key=api_key)
        self._llm_class = llm_class
        self._llms: PerLoop[LLM] = PerLoop(lambda: llm_class(**self._options))
        # Built once here for its complaints: a wrong option is a fault of the settings, not of the first trace.
        llm_class(**self._options)

    async def complete(self, messages: Sequence[Message]) -> Completion:
        """One call through the class's own `achat`; raises what it raises."""
        self._llms.take_stale()
        reply = await self._llms.get().achat([ChatMessage(role=item.role, content=item.content) for item in messages])
        text = scrub_text(reply.message.content or "")
        raw = reply.raw
        usage = _field(raw, "usage")
        sent = sum(len(item.content) for item in messages)
        finish_reason = _finish_reason(raw)
        return Completion(
            text=text,
            finish_reason=finish_reason,
            refusal=finish_reason == "content_filter",
            input_tokens=_tokens(usage, reply.additional_kwargs, "prompt_tokens", "input_tokens", chars=sent),
            output_tokens=_tokens(
                usage, reply.additional_kwargs, "completion_tokens", "output_tokens", chars=len(text)
            ),
            model=name_reported(_field(raw, "model")),
            fingerprint=name_reported(_field(raw, "system_fingerprint")),
        )

    async def close(self) -> None:
        """Lets go of the running loop's instance; these classes have no way of being closed."""
        self._llms.pop()


def llm_options(spec: JudgeSpec, llm_class: type[LLM], *, api_key: str | None) -> dict[str, Any]:
    """The keyword arguments of `llm_class`: the spec's own, and what the class takes of the judge's settings."""
    known = llm_class.model_fields
    # Retries are the guard's business: a class that repeats calls by itself would multiply attempts uncounted.
    ours: Mapping[str, Any] = {
        "temperature": spec.temperature,
        "max_tokens": spec.max_tokens,
        "model": spec.model,
        "max_retries": 0,
        "timeout": spec.timeout_s,
    }
    options = {name: value for name, value in ours.items() if name in known and value is not None}
    if api_key is not None:
        options["api_key"] = api_key
    return {**options, **spec.llm_options}


class MeteredLLM(CustomLLM):
    """A judge's model as a LlamaIndex LLM, for third-party evaluators: every call is admitted and recorded."""

    context_window_tokens: int
    max_tokens: int
    model_name: str
    _ask: Ask = PrivateAttr()

    def __init__(self, spec: JudgeSpec, ask: Ask) -> None:
        super().__init__(
            context_window_tokens=spec.context_window_tokens,
            max_tokens=spec.max_tokens or 256,
            model_name=spec.model_name,
        )
        self._ask = ask

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            context_window=self.context_window_tokens, num_output=self.max_tokens, model_name=self.model_name
        )

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        reply = await self._answer([Message("user", prompt)])
        return CompletionResponse(text=reply.text, raw={"model": reply.model})

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        sent = [Message("system" if item.role.value == "system" else "user", item.content or "") for item in messages]
        reply = await self._answer(sent)
        return ChatResponse(message=ChatMessage(role="assistant", content=reply.text), raw={"model": reply.model})

    async def _answer(self, messages: Sequence[Message]) -> Completion:
        reply = await self._ask(messages)
        if reply.refusal:
            # What is left of a reply that was filtered may well begin with a yes.
            raise CallError("the endpoint refused or filtered the reply", status=400, code="content_filter")
        _note(reply)
        return reply

    # LlamaIndex's base class makes these abstract; no evaluator asks for them from async code.
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        # Abstract above; an answer here would block the event loop that all judges share.
        raise NotImplementedError("a judge's model is asked from async code only; use acomplete")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        # Abstract above; a verdict is read whole or not at all.
        raise NotImplementedError("a judge's model does not stream; use acomplete")


def _note(reply: Completion) -> None:
    if (replies := last_reply.get()) is not None:
        replies.append(reply.text)


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _finish_reason(raw: Any) -> str:
    choices = _field(raw, "choices")
    if isinstance(choices, Sequence) and not isinstance(choices, str) and choices:
        return str(_field(choices[0], "finish_reason") or "")
    return str(_field(raw, "stop_reason") or "")


def _tokens(usage: Any, extra: Mapping[str, Any], *names: str, chars: int) -> int:
    for source in (usage, extra):
        for name in names:
            if value := tokens_reported(_field(source, name)):
                return value
    return tokens_of(chars)
