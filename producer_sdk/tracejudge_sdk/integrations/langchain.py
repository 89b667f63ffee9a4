"""LangChain: a callback handler that logs every outermost run as a trace.

    handler = TraceJudgeCallbackHandler(client)
    chain.invoke(question, config={"callbacks": [handler], "metadata": {"session_id": "s1"}})

* an **answer** is a run without a parent: of a chain, an agent or a graph, or of a language model called by itself
* query: of the run's input the text, the entry under query, question, input, ... or the last message of a person
* response: of the run's output the text, the entry under answer, output, ... or the last message; where the reader of a
  stream stopped, the pieces that the model had given, and the trace is incomplete. LangChain ends such a run as if it
  were whole; it is known by its model, which has not come to its end
* source nodes: what its retrievers found, in order; of a retriever inside another the outer one's; else the documents
  in its output
* model and earlier turns: of the last language model it called
* metadata: names of fields of `log()` (session_id, user_id, trace_id, ...) become those fields, the others tags, but
  for LangChain's own; tags of the run become tags with the value "true"
* trace_id: the id of the run, unless the metadata gives one

Inside `client.trace()` and `@observe` a run is told as in `nesting`. One handler may serve any number of runs at once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

try:
    from langchain_core.callbacks import BaseCallbackHandler
except ImportError as error:
    raise ImportError(
        "tracejudge_sdk.integrations.langchain needs LangChain: pip install 'langchain-core>=1'"
    ) from error

from tracejudge_sdk import forks
from tracejudge_sdk.calls import Pieces, first_of, read_query, read_result
from tracejudge_sdk.fields import FIELD_NAMES
from tracejudge_sdk.nesting import NestedRecording
from tracejudge_sdk.recording import current_trace_of

if TYPE_CHECKING:
    from tracejudge_sdk.client import TraceClient

__all__ = ["TraceJudgeCallbackHandler"]

MOST_OPEN: Final = 10_000
"""Runs of which the beginning was heard and not the end; the oldest are forgotten first."""

_OWN_METADATA: Final = ("ls_", "lc_", "langgraph_", "checkpoint_", "__")
_TURNS: Final = {"human": "user", "ai": "assistant"}


@dataclass
class _Answer:
    recording: NestedRecording
    documents: list[Any] = field(default_factory=list)
    models: set[UUID] = field(default_factory=set)
    """Language models that have begun and not ended."""
    pieces: Pieces = field(default_factory=lambda: Pieces(keep=False))


@dataclass(frozen=True)
class _Run:
    answer: _Answer
    retrieves: bool  # it is a retriever, or inside one
    is_root: bool


class TraceJudgeCallbackHandler(BaseCallbackHandler):
    """Hears the runs of LangChain. Never raises into them: LangChain logs what a handler raises and goes on."""

    run_inline = True  # in the run's own thread and order, also where the run is async
    raise_error = False

    def __init__(self, client: TraceClient, *, nested: bool = True) -> None:
        """`nested=False` logs no run that lies inside an explicit trace."""
        self._client = client
        self._nested = nested
        self._lock = threading.Lock()
        self._runs: OrderedDict[UUID, _Run] = OrderedDict()
        forks.register(self)

    def before_fork(self) -> None:
        """Holds the lock while the process forks."""
        self._lock.acquire()

    def after_fork(self) -> None:
        """Lets it go, in parent and child."""
        self._lock.release()

    # -- beginnings --------------------------------------------------------------------------------------------------

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **run: Any) -> None:
        """A chain, an agent or a graph begins."""
        self._begins(run_id, run, lambda: _query_of(inputs))

    def on_tool_start(self, serialized: Any, input_str: Any, *, run_id: UUID, **run: Any) -> None:
        """A tool begins, maybe with a retriever inside."""
        self._begins(run_id, run, None)

    def on_retriever_start(self, serialized: Any, query: Any, *, run_id: UUID, **run: Any) -> None:
        """A retriever begins."""
        self._begins(run_id, run, None, retrieves=True)

    def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: UUID, **run: Any) -> None:
        """A language model that takes texts begins."""
        known = self._begins(run_id, run, lambda: prompts[-1])
        if known is not None:
            known.answer.models.add(run_id)
            known.answer.recording.offer(model=_model_of(run))

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **run: Any) -> None:
        """A language model that takes messages begins."""
        given = messages[-1] if messages else []
        known = self._begins(run_id, run, lambda: _last_of(given, "human"))
        if known is not None:
            known.answer.models.add(run_id)
            people = [place for place, message in enumerate(given) if getattr(message, "type", None) == "human"]
            turns = [
                {"role": _TURNS[message.type], "content": _text_of(message)}
                for message in given[: people[-1] if people else 0]
                if getattr(message, "type", None) in _TURNS
            ]
            known.answer.recording.offer(model=_model_of(run), history=turns or None)

    # -- in between --------------------------------------------------------------------------------------------------

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **run: Any) -> None:
        """A piece of a stream."""
        known = self._runs.get(run_id)
        if known is not None:
            known.answer.pieces.add(token if isinstance(token, str) else _text_of(token))

    # -- ends --------------------------------------------------------------------------------------------------------

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **run: Any) -> None:
        """Logs the answer when its chain has ended."""
        known = self._ends(run_id)
        if known is None or not known.is_root:
            return
        answer = known.answer
        response, nodes = _result_of(outputs)
        stopped = GeneratorExit() if answer.models and _was_stream(run) else None
        if stopped is not None:
            response = answer.pieces.text()
        _hear_input(answer, run)
        answer.recording.finish(stopped, response=response, source_nodes=answer.documents or nodes)

    def on_llm_end(self, response: Any, *, run_id: UUID, **run: Any) -> None:
        """The model said all of it."""
        known = self._ends(run_id)
        if known is None:
            return
        generation = first_of(response, ("generations",))[0][0]
        said = getattr(getattr(generation, "message", None), "response_metadata", None) or {}
        known.answer.recording.offer(model=said.get("model_name") or said.get("model"))
        if known.is_root:
            known.answer.recording.finish(response=generation.text)

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **run: Any) -> None:
        """The retriever found documents."""
        with self._lock:
            known = self._runs.pop(run_id, None)
            parent = self._runs.get(run.get("parent_run_id") or run_id)
        if known is None or (parent is not None and parent.retrieves):
            return
        if known.is_root:
            # Nobody answered; where it is inside an explicit trace, it is that one's retriever.
            around = current_trace_of(self._client._log)
            if around is not None:
                around.offer(source_nodes=documents)
        known.answer.documents.extend(documents)

    def on_tool_end(self, output: Any, *, run_id: UUID, **run: Any) -> None:
        """A tool ended."""
        self._ends(run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **run: Any) -> None:
        """Logs the answer when its chain has raised, or the reader of its stream has stopped."""
        known = self._ends(run_id)
        if known is not None and known.is_root:
            answer = known.answer
            _hear_input(answer, run)
            answer.recording.finish(error, response=answer.pieces.text(), source_nodes=answer.documents)

    on_llm_error = on_chain_error

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **run: Any) -> None:
        """A retriever raised; whether the answer fails is told by the run around it."""
        self._ends(run_id)

    on_tool_error = on_retriever_error

    # -- inside ------------------------------------------------------------------------------------------------------

    def _begins(self, run_id: UUID, run: Mapping[str, Any], query: Any, *, retrieves: bool = False) -> _Run | None:
        parent = self._runs.get(run["parent_run_id"]) if run.get("parent_run_id") is not None else None
        if parent is not None:
            known = _Run(parent.answer, parent.retrieves or retrieves, False)
        elif run.get("parent_run_id") is not None:
            return None  # of a run whose beginning was not heard
        else:
            fields = _fields_of(run_id, run)
            if query is not None:
                fields["query"] = query()
            log = self._client._log if query is not None else _nowhere
            around = current_trace_of(self._client._log)
            recording = NestedRecording(log, fields, parent=around, nested=self._nested and query is not None)
            known = _Run(_Answer(recording), retrieves, True)
        with self._lock:
            self._runs[run_id] = known
            if len(self._runs) > MOST_OPEN:
                self._runs.popitem(last=False)
        return known

    def _ends(self, run_id: UUID) -> _Run | None:
        with self._lock:
            known = self._runs.pop(run_id, None)
        if known is not None:
            known.answer.models.discard(run_id)
        return known


def _was_stream(run: Mapping[str, Any]) -> bool:
    return run.get("inputs") is not None


def _hear_input(answer: _Answer, run: Mapping[str, Any]) -> None:
    """Takes the input at the end of a run: when a run streams, LangChain gives an empty input at its beginning."""
    if _was_stream(run) and not answer.recording.query:
        answer.recording.query = _query_of(run["inputs"])


def _nowhere(fields: dict[str, Any]) -> str:
    return str(fields["trace_id"])


def _fields_of(run_id: UUID, run: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"trace_id": str(run_id)}
    tags: dict[str, Any] = {str(name): "true" for name in run.get("tags") or () if ":" not in str(name)}
    for name, value in (run.get("metadata") or {}).items():
        if name in FIELD_NAMES and name != "tags":
            fields[name] = value
        elif not str(name).startswith(_OWN_METADATA):
            tags[str(name)] = value
    fields["tags"] = tags
    return fields


def _query_of(inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        messages = inputs.get("messages")
        found = read_query(inputs)
        return found if found is not None or not messages else _last_of(messages, "human")
    if isinstance(inputs, (list, tuple)):
        return _last_of(inputs, "human")
    return inputs if isinstance(inputs, str) else _text_of(inputs)


def _result_of(outputs: Any) -> tuple[Any, Any]:
    if isinstance(outputs, Mapping) and isinstance(outputs.get("messages"), (list, tuple)):
        return _last_of(outputs["messages"], "ai"), None
    if isinstance(outputs, (list, tuple)) and outputs and hasattr(outputs[-1], "content"):
        return _last_of(outputs, "ai"), None
    if hasattr(outputs, "content"):
        return _text_of(outputs), None
    response, nodes = read_result(outputs)
    return (_text_of(response) if hasattr(response, "content") else response), nodes


def _last_of(messages: Any, kind: str) -> Any:
    """The text of the last message of this type, else of the last one at all; pairs of role and text too."""
    texts = [_text_of(message) for message in messages if getattr(message, "type", kind) == kind]
    return texts[-1] if texts else (_text_of(messages[-1]) if messages else None)


def _text_of(message: Any) -> Any:
    if isinstance(message, (tuple, list)) and len(message) == 2:
        return message[1]
    if isinstance(message, Mapping):
        return message.get("content")
    content = getattr(message, "content", message)
    return content if isinstance(content, str) else getattr(message, "text", content)


def _model_of(run: Mapping[str, Any]) -> str | None:
    parameters = run.get("invocation_params") or {}
    name = (run.get("metadata") or {}).get("ls_model_name") or parameters.get("model") or parameters.get("model_name")
    return name if isinstance(name, str) else None
