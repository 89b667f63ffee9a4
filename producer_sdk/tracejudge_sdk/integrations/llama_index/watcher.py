"""Which calls of LlamaIndex are answers, and what becomes of them.

A call is known by its method and by the class it is a method of. While an answer is being made it is the current trace
of its context, so retrievals, models and queries inside it find it there, however many answers are made at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.response_synthesizers.base import BaseSynthesizer

from tracejudge_sdk.fields import FIELD_NAMES
from tracejudge_sdk.integrations.llama_index.answers import UNNAMED, hand_on, model_of
from tracejudge_sdk.nesting import NestedRecording
from tracejudge_sdk.recording import Current, current_trace_of

if TYPE_CHECKING:
    from tracejudge_sdk.client import TraceClient

Kind = Literal["query", "chat", "synthesis", "retrieval"]

_METHODS: Final[dict[str, tuple[Kind, type]]] = {
    "query": ("query", BaseQueryEngine),
    "aquery": ("query", BaseQueryEngine),
    "chat": ("chat", BaseChatEngine),
    "achat": ("chat", BaseChatEngine),
    "stream_chat": ("chat", BaseChatEngine),
    "astream_chat": ("chat", BaseChatEngine),
    "synthesize": ("synthesis", BaseSynthesizer),
    "asynthesize": ("synthesis", BaseSynthesizer),
    "retrieve": ("retrieval", BaseRetriever),
    "aretrieve": ("retrieval", BaseRetriever),
}
_UUID_CHARS: Final = 37  # LlamaIndex's span ids: Class.method-UUID
_ROLES: Final = frozenset(("user", "assistant"))


class Answer(NestedRecording):
    """A trace of ours in the making, told from those that the service opened itself."""


class _Call(NamedTuple):
    kind: Kind
    instance: Any
    answer: Answer | None
    current: Current | None
    retrieving: Token[bool] | None


class Watcher:
    """One client's ear on LlamaIndex's calls. Every method is called in the context of the call it is about."""

    def __init__(self, client: TraceClient, *, nested: bool) -> None:
        self._log = client._log
        self._retrieving: ContextVar[bool] = ContextVar("tracejudge_retrieving", default=False)
        self.nested = nested
        self._open: dict[str, _Call] = {}
        self._leave: Callable[[], None] | None = None

    def entered(self, id_: str, instance: Any, arguments: Mapping[str, Any], tags: Mapping[str, Any]) -> None:
        """A method of LlamaIndex begins."""
        known = _METHODS.get(id_[:-_UUID_CHARS].rpartition(".")[2])
        if known is None or not isinstance(instance, known[1]) or self._leave is not None:
            return
        kind = known[0]
        around = current_trace_of(self._log)
        if kind == "retrieval":
            # A retriever inside a retriever (a fusion of several) is heard through the outer one.
            token = None if self._retrieving.get() else self._retrieving.set(True)
            self._open[id_] = _Call(kind, instance, None, None, token)
        elif kind == "synthesis" and isinstance(around, Answer):
            around.__dict__["_offered"]["source_nodes"] = list(arguments.get("nodes") or ())
        else:
            fields = _fields_of_tags(tags, own_id=around is None)
            fields["query"] = next(iter(arguments.values()), None)
            fields["tags"] = {"engine": type(instance).__name__, **fields.get("tags", {})}
            if kind == "chat":
                fields["history"] = list(arguments.get("chat_history") or ()) or None
            answer = Answer(self._log, fields, parent=around, nested=self.nested)
            if kind == "synthesis":
                answer.offer(source_nodes=arguments.get("nodes") or ())
            current = answer.current()
            current.__enter__()
            self._open[id_] = _Call(kind, instance, answer, current, None)

    def exited(self, id_: str, result: Any) -> None:
        """Ends a span that returned `result`."""
        call = self._open.pop(id_, None)
        if call is None:
            return
        self._left(call)
        if call.answer is not None:
            call.answer.offer(model=model_of(call.instance) if not call.answer.offered("model") else None)
            hand_on(result, call.answer)
        elif call.retrieving is not None and isinstance(result, Sequence):
            around = current_trace_of(self._log)
            if around is not None:
                around.offer(source_nodes=result)
        self._maybe_leave()

    def dropped(self, id_: str, error: BaseException | None) -> None:
        """Ends a span that raised `error`."""
        call = self._open.pop(id_, None)
        if call is None:
            return
        self._left(call)
        if call.answer is not None:
            call.answer.finish(error)
        self._maybe_leave()

    def model_called(self, model: Mapping[str, Any], messages: Sequence[Any] | None) -> None:
        """A language model is called."""
        answer = current_trace_of(self._log)
        if answer is None or self._leave is not None:
            return
        name = model.get("model") or model.get("model_name")
        answer.offer(model=name if isinstance(name, str) and name != UNNAMED else None)
        if messages and isinstance(answer, Answer) and answer.history is None and not answer.offered("history"):
            turns = [turn for turn in messages[:-1] if str(getattr(turn.role, "value", turn.role)) in _ROLES]
            answer.offer(history=turns or None)

    def stop(self, leave: Callable[[], None]) -> None:
        """Hears no new answers; `leave` is called when the last that has begun is over."""
        self._leave = leave
        self._maybe_leave()

    def _left(self, call: _Call) -> None:
        if call.current is not None:
            call.current.__exit__()
        if call.retrieving is not None:
            try:
                self._retrieving.reset(call.retrieving)
            except ValueError:  # it ended in another context than it began in
                self._retrieving.set(False)

    def _maybe_leave(self) -> None:
        if self._leave is not None and not self._open:
            self._leave()


def _fields_of_tags(tags: Mapping[str, Any], *, own_id: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in tags.items():
        if name == "tags" and isinstance(value, Mapping):
            others.update(value)
        elif name in FIELD_NAMES and (own_id or name != "trace_id"):
            fields[name] = value
        elif name != "trace_id":
            others[str(name)] = value
    fields["tags"] = others
    return fields
