"""The span processor behind OpenInference's own instrumentation of LlamaIndex and LangChain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.prompts import PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.query_engine import RetrieverQueryEngine
from openinference.instrumentation import using_attributes
from openinference.instrumentation.langchain import LangChainInstrumentor
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from tests.support.logged_traces import Traces, logged_by
from tests.support.scripted_llm import KeywordRetriever, ScriptedLLM
from tracejudge_sdk import TraceClient
from tracejudge_sdk.integrations.opentelemetry import TraceJudgeSpanProcessor
from tracejudge_sdk.testing import MemoryTransport


@pytest.fixture
def traces() -> Iterator[Traces]:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(TraceJudgeSpanProcessor(client))
    instrumentors = (LlamaIndexInstrumentor(), LangChainInstrumentor())
    for instrumentor in instrumentors:
        instrumentor.instrument(tracer_provider=provider)

    yield logged_by(client, transport)
    for instrumentor in instrumentors:
        instrumentor.uninstrument()
    client.close(30)


def _engine(**options: Any) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(KeywordRetriever(), llm=ScriptedLLM(lambda _: ["It ", "is."]), **options)


def test_a_llama_index_query(traces: Traces) -> None:
    with using_attributes(session_id="s1", user_id="u1", metadata={"tier": "paid"}):
        _engine().query("Paris?")
    (trace,) = traces()
    assert (trace.query, trace.response, trace.model, trace.status) == ("Paris?", "It is.", "scripted-1", "ok")
    assert [(node.node_id, node.text) for node in trace.source_nodes] == [
        ("paris-1", "Passage 1 on paris."),
        ("paris-2", "Passage 2 on paris."),
    ]
    assert (trace.session_id, trace.user_id, trace.tags) == ("s1", "u1", {"tier": "paid"})


async def test_streams_of_llama_index(traces: Traces) -> None:
    response: Any = _engine(streaming=True).query("Oslo?")
    assert list(response.response_gen) == ["It ", "is."]
    response = await _engine(streaming=True).aquery("Rome?")
    assert [piece async for piece in response.async_response_gen()] == ["It ", "is."]
    assert [(trace.query, trace.response, trace.source_nodes[0].node_id) for trace in traces()] == [
        ("Oslo?", "It is.", "oslo-1"),
        ("Rome?", "It is.", "rome-1"),
    ]


def test_a_llama_index_chat(traces: Traces) -> None:
    engine = ContextChatEngine.from_defaults(KeywordRetriever(), llm=ScriptedLLM(lambda _: ["It is."]))
    engine.chat("Paris?")
    (trace,) = traces()
    assert (trace.query, trace.response, len(trace.source_nodes)) == ("Paris?", "It is.", 2)


def test_an_error_of_llama_index(traces: Traces) -> None:
    def broken(prompt: str) -> list[str]:
        raise ConnectionError("model gone")

    with pytest.raises(ConnectionError):
        RetrieverQueryEngine.from_args(KeywordRetriever(), llm=ScriptedLLM(broken)).query("Paris?")
    (trace,) = traces()
    assert (trace.query, trace.status) == ("Paris?", "error")
    assert "model gone" in (trace.error or "")


class _Retriever(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(page_content=f"Passage on {query}", metadata={"source": "a.pdf"})]


@pytest.mark.parametrize("streams", [False, True])
def test_a_langchain_chain(traces: Traces, streams: bool) -> None:
    chain = (
        {"context": _Retriever(), "question": RunnablePassthrough()}
        | PromptTemplate.from_template("{context} {question}")
        | FakeListLLM(responses=["It is."])
    )
    said = "".join(chain.stream("Paris?")) if streams else chain.invoke("Paris?")
    assert said == "It is."
    (trace,) = traces()
    assert (trace.query, trace.response, trace.status) == ("Paris?", "It is.", "ok")
    assert [(node.text, node.metadata) for node in trace.source_nodes] == [("Passage on Paris?", {"source": "a.pdf"})]
    assert trace.tags == {}
