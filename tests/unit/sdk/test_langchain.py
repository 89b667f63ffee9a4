"""LangChain's own runnables with the callback handler, and models that say what a test wrote down."""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool

from tests.support.logged_traces import Traces
from tracejudge_sdk import TraceClient
from tracejudge_sdk.integrations.langchain import TraceJudgeCallbackHandler
from tracejudge_sdk.trace import Trace


@pytest.fixture
def config(client: TraceClient) -> RunnableConfig:
    return {"callbacks": [TraceJudgeCallbackHandler(client)]}


class Retriever(BaseRetriever):
    """Finds two documents about the last word of the query."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        word = query.split()[-1].strip("?").lower()
        return [
            Document(id=f"{word}-{number}", page_content=f"Passage {number} on {word}.", metadata={"source": word})
            for number in (1, 2)
        ]


class Outer(BaseRetriever):
    """Asks another retriever and gives its first document."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return Retriever().invoke(query, config={"callbacks": run_manager.get_child()})[:1]


PROMPT = ChatPromptTemplate.from_messages(
    [("system", "be kind"), ("human", "Hello"), ("ai", "Hi"), ("human", "{context}: {question}")]
)


def _chat_model(*answers: str | Exception) -> GenericFakeChatModel:
    def messages() -> Iterator[AIMessage]:
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
            yield AIMessage(answer, response_metadata={"model_name": "fake-1"})

    return GenericFakeChatModel(messages=messages())


def _chain(model: Runnable[Any, Any] | None = None, retriever: BaseRetriever | None = None) -> Runnable[str, str]:
    found = {"context": retriever or Retriever(), "question": RunnablePassthrough()}
    chain: Runnable[str, str] = found | PROMPT | (model or _chat_model("Paris is big.")) | StrOutputParser()
    return chain


def _ids(trace: Trace) -> list[str]:
    return [node.node_id for node in trace.source_nodes]


def test_a_chain_is_a_trace_with_its_documents(config: RunnableConfig, traces: Traces) -> None:
    run_id = uuid.uuid4()
    config["run_id"] = run_id
    config["metadata"] = {"session_id": "s1", "tier": "paid"}
    config["tags"] = ["faq"]
    assert _chain().invoke("What about Paris?", config=config) == "Paris is big."
    (trace,) = traces()
    assert trace.trace_id == str(run_id)
    assert (trace.query, trace.response, trace.status) == ("What about Paris?", "Paris is big.", "ok")
    assert (trace.model, trace.session_id, trace.tags) == ("fake-1", "s1", {"tier": "paid", "faq": "true"})
    assert [(node.node_id, node.text, node.metadata) for node in trace.source_nodes] == [
        ("paris-1", "Passage 1 on paris.", {"source": "paris"}),
        ("paris-2", "Passage 2 on paris.", {"source": "paris"}),
    ]
    assert [(turn.role, turn.content) for turn in trace.history] == [("user", "Hello"), ("assistant", "Hi")]
    assert trace.latency_ms is not None
    assert not trace.lossy


async def test_an_async_chain_likewise(config: RunnableConfig, traces: Traces) -> None:
    assert await _chain().ainvoke("What about Rome?", config=config) == "Paris is big."
    (trace,) = traces()
    assert (trace.query, trace.response, _ids(trace)) == ("What about Rome?", "Paris is big.", ["rome-1", "rome-2"])


def test_b16_a_stream_is_logged_whole_when_it_ends(config: RunnableConfig, traces: Traces) -> None:
    stream = _chain().stream("What about Paris?", config=config)
    first = next(stream)
    assert first == "Paris"
    assert traces() == []
    assert first + "".join(stream) == "Paris is big."
    (trace,) = traces()
    assert (trace.query, trace.response, trace.status) == ("What about Paris?", "Paris is big.", "ok")
    assert _ids(trace) == ["paris-1", "paris-2"]


def test_b16_a_stream_whose_reader_stops_is_incomplete(config: RunnableConfig, traces: Traces) -> None:
    stream: Any = _chain().stream("What about Paris?", config=config)
    assert next(stream) == "Paris"
    stream.close()
    gc.collect()
    (trace,) = traces()
    assert (trace.query, trace.status) == ("What about Paris?", "incomplete")
    assert (trace.response or "").startswith("Paris")
    assert _ids(trace) == ["paris-1", "paris-2"]


async def test_an_async_stream_is_logged_whole(config: RunnableConfig, traces: Traces) -> None:
    pieces = [piece async for piece in _chain().astream("What about Oslo?", config=config)]
    assert "".join(pieces) == "Paris is big."
    (trace,) = traces()
    assert (trace.response, _ids(trace)) == ("Paris is big.", ["oslo-1", "oslo-2"])


def test_the_chains_own_exception_passes_through(config: RunnableConfig, traces: Traces) -> None:
    own = ConnectionError("model gone")
    with pytest.raises(ConnectionError) as seen:
        _chain(_chat_model(own)).invoke("What about Paris?", config=config)
    assert seen.value is own
    (trace,) = traces()
    assert (trace.status, trace.error, trace.response) == ("error", "ConnectionError: model gone", None)
    assert _ids(trace) == ["paris-1", "paris-2"]


def test_of_a_retriever_inside_another_the_outer_one_counts(config: RunnableConfig, traces: Traces) -> None:
    _chain(retriever=Outer()).invoke("What about Paris?", config=config)
    assert [_ids(trace) for trace in traces()] == [["paris-1"]]


def test_a_retriever_inside_a_tool_is_heard(config: RunnableConfig, traces: Traces) -> None:
    @tool
    def search(query: str) -> str:
        """Searches."""
        return str(len(Retriever().invoke(query)))

    agent: Runnable[str, str] = RunnableLambda(lambda question: f"found {search.invoke({'query': question})}")
    agent.invoke("all on Paris", config=config)
    (trace,) = traces()
    assert (trace.query, trace.response, _ids(trace)) == ("all on Paris", "found 2", ["paris-1", "paris-2"])


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ({"input": "q"}, {"answer": "r", "context": [Document(id="d", page_content="p")]}),
        ({"messages": [HumanMessage("q")]}, {"messages": [HumanMessage("q"), AIMessage("r")]}),
        ([("human", "q")], AIMessage([{"type": "text", "text": "r"}])),
        ({"question": "q"}, {"result": AIMessage("r"), "source_documents": []}),
    ],
)
def test_usual_inputs_and_outputs_are_read(config: RunnableConfig, traces: Traces, given: Any, result: Any) -> None:
    RunnableLambda(lambda _: result).invoke(given, config=config)
    (trace,) = traces()
    assert (trace.query, trace.response) == ("q", "r")
    if isinstance(result, dict) and "context" in result:
        assert _ids(trace) == ["d"]


def test_models_by_themselves_are_answers_and_retrievers_are_not(config: RunnableConfig, traces: Traces) -> None:
    assert FakeListLLM(responses=["r1"]).invoke("q1", config=config) == "r1"
    assert _chat_model("r2").invoke("q2", config=config).text == "r2"
    Retriever().invoke("Paris", config=config)
    assert [(trace.query, trace.response, trace.source_nodes) for trace in traces()] == [
        ("q1", "r1", ()),
        ("q2", "r2", ()),
    ]


async def test_concurrent_runs_of_one_handler_keep_apart(config: RunnableConfig, traces: Traces) -> None:
    def ask(question: str) -> str:
        return _chain(_chat_model(f"said {question}")).invoke(question, config=config)

    questions = [f"{number} Paris" if number % 2 else f"{number} Rome" for number in range(30)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, questions))
    more = [f"{question} now Oslo" for question in questions]
    await asyncio.gather(*(_chain(_chat_model(f"said {q}")).ainvoke(q, config=config) for q in more))
    logged = traces()
    assert sorted(trace.query for trace in logged) == sorted(questions + more)
    for trace in logged:
        word = trace.query.split()[-1].lower()
        assert (trace.response, _ids(trace)) == (f"said {trace.query}", [f"{word}-1", f"{word}-2"])


def test_a_run_inside_an_explicit_trace_is_told_once(
    client: TraceClient, config: RunnableConfig, traces: Traces
) -> None:
    @client.observe
    def answer(question: str) -> str:
        return _chain().invoke(question, config=config)

    answer("What about Paris?")
    with client.trace(query="Rome?", response="found"):
        Retriever().invoke("Rome?", config=config)
    first, second = traces()
    assert (first.query, first.response, first.model) == ("What about Paris?", "Paris is big.", "fake-1")
    assert (_ids(first), _ids(second)) == (["paris-1", "paris-2"], ["rome-1", "rome-2"])


def test_nothing_is_kept_of_runs_that_ended(client: TraceClient) -> None:
    handler = TraceJudgeCallbackHandler(client)
    for _ in range(5):
        _chain().invoke("What about Paris?", config={"callbacks": [handler]})
    assert len(handler._runs) == 0
