"""LlamaIndex's own engines, with the integration installed and a scripted language model."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.indices.query.query_transform.base import IdentityQueryTransform
from llama_index.core.query_engine import (
    BaseQueryEngine,
    CustomQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.dispatcher import instrument_tags

from tests.support.logged_traces import Traces, logged_by
from tests.support.scripted_llm import (
    ChatMessage,
    KeywordRetriever,
    MessageRole,
    MockLLM,
    Response,
    ScriptedLLM,
    nodes_about,
)
from tracejudge_sdk import TraceClient, current_trace
from tracejudge_sdk.integrations import llama_index
from tracejudge_sdk.testing import MemoryTransport, traces_of
from tracejudge_sdk.trace import Trace


@pytest.fixture
def traces(client: TraceClient, transport: MemoryTransport) -> Iterator[Traces]:
    llama_index.install(client)

    yield logged_by(client, transport)
    llama_index.uninstall(client)


def _said(prompt: str) -> list[str]:
    """Echoes which city the question is about: what stands last in the prompt."""
    cities = sorted((prompt.lower().rfind(city), city) for city in ("paris", "rome", "oslo"))
    return ["On ", cities[-1][1], "."] if cities[-1][0] >= 0 else ["No ", "city."]


def _engine(llm: ScriptedLLM | None = None, **options: Any) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(KeywordRetriever(), llm=llm or ScriptedLLM(_said), **options)


def _ids(trace: Trace) -> list[str]:
    return [node.node_id for node in trace.source_nodes]


def _texts(trace: Trace) -> list[str | None]:
    return [node.text for node in trace.source_nodes]


# -- query engines -----------------------------------------------------------------------------------------------------


def test_a_query_is_a_trace_with_its_nodes_model_and_duration(traces: Traces) -> None:
    response = _engine().query("What is in Paris?")
    assert isinstance(response, Response)
    assert response.response == "On paris."
    (trace,) = traces()
    assert (trace.query, trace.response, trace.status) == ("What is in Paris?", "On paris.", "ok")
    assert (trace.model, trace.tags) == ("scripted-1", {"engine": "RetrieverQueryEngine"})
    assert _ids(trace) == ["paris-1", "paris-2"]
    assert _texts(trace) == ["Passage 1 on paris.", "Passage 2 on paris."]
    assert [node.score for node in trace.source_nodes] == [1.0, 0.5]
    assert trace.latency_ms is not None
    assert not trace.lossy


async def test_an_async_query_likewise(traces: Traces) -> None:
    assert str(await _engine().aquery(QueryBundle("What is in Rome?"))) == "On rome."
    (trace,) = traces()
    assert (trace.query, trace.response, _ids(trace)) == ("What is in Rome?", "On rome.", ["rome-1", "rome-2"])


def test_the_mock_llm_without_a_name_gives_no_model(traces: Traces) -> None:
    RetrieverQueryEngine.from_args(KeywordRetriever(), llm=MockLLM(max_tokens=3)).query("Paris?")
    (trace,) = traces()
    assert (trace.response, trace.model) == ("text text text", None)


def test_b20_nothing_retrieved_is_an_answer_without_nodes(traces: Traces) -> None:
    _engine().query("What is on Mars?")
    (trace,) = traces()
    assert (trace.response, trace.source_nodes) == ("Empty Response", ())


def test_the_engines_own_exception_passes_through_and_what_was_retrieved_is_kept(traces: Traces) -> None:
    own = ConnectionError("model gone")

    def broken(prompt: str) -> list[str]:
        raise own

    with pytest.raises(ConnectionError) as seen:
        _engine(ScriptedLLM(broken)).query("Paris?")
    assert seen.value is own
    (trace,) = traces()
    assert (trace.status, trace.error, trace.response) == ("error", "ConnectionError: model gone", None)
    assert _ids(trace) == ["paris-1", "paris-2"]


async def test_a_cancelled_query_is_incomplete(traces: Traces) -> None:
    started = asyncio.Event()

    class Waiting(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            raise NotImplementedError

        async def acustom_query(self, query_str: str) -> str:
            started.set()
            await asyncio.Event().wait()
            return "never"

    task = asyncio.create_task(Waiting().aquery("Paris?"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(trace.query, trace.status) for trace in traces()] == [("Paris?", "incomplete")]


def test_an_engine_of_the_services_own_gets_the_nodes_it_retrieved(traces: Traces) -> None:
    retriever = QueryFusionRetriever(
        [KeywordRetriever(), KeywordRetriever(["oslo"])], num_queries=1, use_async=False, llm=ScriptedLLM(_said)
    )

    class Own(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            retriever.retrieve(query_str)
            trace = current_trace()
            assert trace is not None
            trace.index_version = "7"
            return "own words"

    Own().query("Oslo?")
    (trace,) = traces()
    # Those of the fusion, not those of the retrievers inside it once more.
    assert (_ids(trace), trace.response, trace.index_version) == (["oslo-1", "oslo-2"], "own words", "7")


# -- streams -----------------------------------------------------------------------------------------------------------


def test_b16_a_streamed_answer_reaches_its_reader_at_once_and_is_logged_whole(traces: Traces) -> None:
    llm = ScriptedLLM(_said)
    response = _engine(llm, streaming=True).query("Paris?")
    assert type(response) is StreamingResponse
    assert traces() == []
    stream = response.response_gen
    assert next(stream) == "On "
    # Not one piece more was taken from the model than the reader has.
    assert llm.handed_out == ["On "]
    assert list(stream) == ["paris", "."]
    (trace,) = traces()
    assert (trace.response, trace.status, trace.model) == ("On paris.", "ok", "scripted-1")
    assert _ids(trace) == ["paris-1", "paris-2"]


def test_b16_a_streamed_answer_whose_reader_stops_is_incomplete(traces: Traces) -> None:
    llm = ScriptedLLM(_said)
    response: Any = _engine(llm, streaming=True).query("Paris?")
    assert next(response.response_gen) == "On "
    response.response_gen.close()
    assert llm.handed_out == ["On "]
    (trace,) = traces()
    assert (trace.response, trace.status) == ("On ", "incomplete")


def test_a_streamed_answer_that_nobody_reads_is_incomplete(traces: Traces) -> None:
    response: Any = _engine(streaming=True).query("Paris?")
    del response
    gc.collect()
    (trace,) = traces()
    assert (trace.response, trace.status, _ids(trace)) == (None, "incomplete", ["paris-1", "paris-2"])


def test_a_stream_read_by_the_responses_own_methods_is_logged(traces: Traces) -> None:
    response: Any = _engine(streaming=True).query("Paris?")
    assert response.get_response().response == "On paris."
    assert str(_engine(streaming=True).query("Rome?")) == "On rome."
    assert [trace.response for trace in traces()] == ["On paris.", "On rome."]


def test_a_stream_that_breaks_hands_on_its_exception(traces: Traces) -> None:
    own = ConnectionError("model gone")
    response: Any = _engine(ScriptedLLM(lambda prompt: ["On ", own]), streaming=True).query("Paris?")  # type: ignore[list-item]
    assert next(response.response_gen) == "On "
    with pytest.raises(ConnectionError) as seen:
        next(response.response_gen)
    assert seen.value is own
    (trace,) = traces()
    assert (trace.response, trace.status, trace.error) == ("On ", "error", "ConnectionError: model gone")


async def test_an_async_stream_is_logged_whole(traces: Traces) -> None:
    response: Any = await _engine(streaming=True).aquery("Oslo?")
    assert type(response) is AsyncStreamingResponse
    assert [piece async for piece in response.async_response_gen()] == ["On ", "oslo", "."]
    (trace,) = traces()
    assert (trace.response, trace.status, _ids(trace)) == ("On oslo.", "ok", ["oslo-1", "oslo-2"])


async def test_an_async_stream_whose_reader_stops_is_incomplete(traces: Traces) -> None:
    response: Any = await _engine(streaming=True).aquery("Oslo?")
    stream = response.response_gen
    assert await anext(stream) == "On "
    await stream.aclose()
    (trace,) = traces()
    assert (trace.response, trace.status) == ("On ", "incomplete")


# -- chat engines ------------------------------------------------------------------------------------------------------

HISTORY = [ChatMessage(role=MessageRole.USER, content="Hello"), ChatMessage(role="assistant", content="Hi")]


def test_a_context_chat_has_its_nodes_and_earlier_turns(traces: Traces) -> None:
    engine = ContextChatEngine.from_defaults(KeywordRetriever(), llm=ScriptedLLM(_said))
    assert engine.chat("Paris?", chat_history=HISTORY).response == "On paris."
    assert engine.chat("And Rome?").response == "On rome."
    first, second = traces()
    assert (first.query, first.response, _ids(first)) == ("Paris?", "On paris.", ["paris-1", "paris-2"])
    assert [(turn.role, turn.content) for turn in first.history] == [("user", "Hello"), ("assistant", "Hi")]
    assert (second.query, second.response, _ids(second)) == ("And Rome?", "On rome.", ["rome-1", "rome-2"])
    assert first.model == second.model == "scripted-1"


def test_a_chat_without_retrieval_has_the_earlier_turns_the_model_got(traces: Traces) -> None:
    engine = SimpleChatEngine.from_defaults(llm=ScriptedLLM(_said))
    engine.chat("Paris?")
    engine.chat("Rome?")
    _, second = traces()
    assert (second.query, second.response, second.source_nodes) == ("Rome?", "On rome.", ())
    assert [(turn.role, turn.content) for turn in second.history] == [("user", "Paris?"), ("assistant", "On paris.")]


def test_a_streamed_chat_is_logged_when_its_reader_has_it_all(traces: Traces) -> None:
    engine = CondensePlusContextChatEngine.from_defaults(KeywordRetriever(), llm=ScriptedLLM(_said))
    response = engine.stream_chat("Paris?")
    assert isinstance(response, StreamingAgentChatResponse)
    assert type(response).__name__ == "StreamingAgentChatResponse"
    assert list(response.response_gen) == ["On ", "paris", "."]
    assert response.response == "On paris."
    (trace,) = traces()
    assert (trace.query, trace.response, trace.status) == ("Paris?", "On paris.", "ok")
    assert (_ids(trace), trace.model) == (["paris-1", "paris-2"], "scripted-1")


def test_a_streamed_chat_whose_reader_stops_is_incomplete(traces: Traces) -> None:
    response = ContextChatEngine.from_defaults(KeywordRetriever(), llm=ScriptedLLM(_said)).stream_chat("Paris?")
    stream = response.response_gen
    assert next(stream) == "On "
    stream.close()
    (trace,) = traces()
    assert (trace.response, trace.status) == ("On ", "incomplete")


def test_a_streamed_chat_that_is_not_read_as_a_stream_is_whole_where_the_model_ended(traces: Traces) -> None:
    response: Any = SimpleChatEngine.from_defaults(llm=ScriptedLLM(_said)).stream_chat("Paris?")
    response.write_response_to_history_thread.join()
    assert str(response) == "On paris."
    del response
    gc.collect()
    (trace,) = traces()
    assert (trace.response, trace.status) == ("On paris.", "ok")


def test_a_streamed_chat_that_breaks_hands_on_its_exception(traces: Traces) -> None:
    own = ConnectionError("model gone")
    # LlamaIndex's own thread dies of it too, and would say so on the terminal.
    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        llm = ScriptedLLM(lambda prompt: [own])  # type: ignore[list-item]
        response = SimpleChatEngine.from_defaults(llm=llm).stream_chat("Paris?")
        with pytest.raises(ConnectionError) as seen:
            list(response.response_gen)
    finally:
        threading.excepthook = hook
    assert seen.value is own
    (trace,) = traces()
    assert (trace.status, trace.error) == ("error", "ConnectionError: model gone")


async def test_an_async_streamed_chat_is_logged_whole(traces: Traces) -> None:
    engine = ContextChatEngine.from_defaults(KeywordRetriever(), llm=ScriptedLLM(_said))
    response = await engine.astream_chat("Oslo?")
    assert [piece async for piece in response.async_response_gen()] == ["On ", "oslo", "."]
    assert str((await engine.achat("Rome?")).response) == "On rome."
    assert [(trace.query, trace.response, trace.status, _ids(trace)) for trace in traces()] == [
        ("Oslo?", "On oslo.", "ok", ["oslo-1", "oslo-2"]),
        ("Rome?", "On rome.", "ok", ["rome-1", "rome-2"]),
    ]


def test_a_condensed_question_is_one_answer_with_the_question_that_was_asked(traces: Traces) -> None:
    def script(prompt: str) -> list[str]:
        return ["In full: ", "Paris?"] if "standalone question" in prompt.lower() else _said(prompt)

    llm = ScriptedLLM(script)
    engine = CondenseQuestionChatEngine.from_defaults(_engine(llm), llm=llm)
    assert engine.chat("And there?", chat_history=HISTORY).response == "On paris."
    assert list(engine.stream_chat("And now?", chat_history=HISTORY).response_gen) == ["On ", "paris", "."]
    for trace, asked in zip(traces(), ("And there?", "And now?"), strict=True):
        assert (trace.query, trace.response, trace.tags) == (
            asked,
            "On paris.",
            {"engine": "CondenseQuestionChatEngine"},
        )
        assert _ids(trace) == ["paris-1", "paris-2"]
        assert [turn.content for turn in trace.history] == ["Hello", "Hi"]


# -- nested and concurrent ---------------------------------------------------------------------------------------------


class _Questions(BaseQuestionGenerator):
    """The sub-questions a test asks for."""

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        pass

    def generate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
        return [SubQuestion(sub_question=f"{city}?", tool_name=city) for city in ("paris", "rome")]

    async def agenerate(self, tools: Any, query: QueryBundle) -> list[SubQuestion]:
        return self.generate(tools, query)


def _sub_question_engine(*, use_async: bool) -> SubQuestionQueryEngine:
    outer = ScriptedLLM(lambda prompt: ["Both."], model="outer-llm")
    tools = [
        QueryEngineTool.from_defaults(_engine(ScriptedLLM(_said, model=f"{city}-llm")), name=city, description=city)
        for city in ("paris", "rome")
    ]
    return SubQuestionQueryEngine.from_defaults(
        query_engine_tools=tools,
        llm=outer,
        question_gen=_Questions(),
        response_synthesizer=get_response_synthesizer(llm=outer),
        use_async=use_async,
        verbose=False,
    )


@pytest.mark.parametrize("use_async", [False, True])
def test_sub_questions_have_their_own_nodes_and_models(traces: Traces, use_async: bool) -> None:
    _sub_question_engine(use_async=use_async).query("Compare the two")
    by_query = {trace.query: trace for trace in traces()}
    assert sorted(by_query) == ["Compare the two", "paris?", "rome?"]
    outer = by_query["Compare the two"]
    for city in ("paris", "rome"):
        trace = by_query[f"{city}?"]
        assert (_ids(trace), trace.response) == ([f"{city}-1", f"{city}-2"], f"On {city}.")
        assert trace.model == f"{city}-llm"
        assert trace.tags == {"engine": "RetrieverQueryEngine", "parent_trace_id": outer.trace_id}
        assert trace.event_time <= outer.event_time
        assert trace.latency_ms is not None
    assert (outer.response, outer.model) == ("Both.", "outer-llm")
    assert outer.tags == {"engine": "SubQuestionQueryEngine"}
    # What LlamaIndex says was shown: the answers to the sub-questions, then the passages behind them.
    assert len(outer.source_nodes) == 6
    assert _ids(outer)[2:] == ["paris-1", "paris-2", "rome-1", "rome-2"]


async def test_async_sub_questions_likewise_and_not_at_all_where_only_the_outermost_is_wanted(
    client: TraceClient, traces: Traces
) -> None:
    llama_index.install(client, nested=False)
    await _sub_question_engine(use_async=True).aquery("Compare the two")
    assert [trace.query for trace in traces()] == ["Compare the two"]


def test_an_answer_handed_on_by_a_router_or_a_transform_is_one_trace(traces: Traces) -> None:
    selecting = ScriptedLLM(lambda prompt: ['[{"choice": 1, "reason": "fits"}]'])
    router = RouterQueryEngine(
        selector=LLMSingleSelector.from_defaults(llm=selecting),
        query_engine_tools=[
            QueryEngineTool.from_defaults(_engine(streaming=True), name="cities", description="cities")
        ],
        llm=selecting,
    )

    response: Any = router.query("Paris?")
    assert "".join(response.response_gen) == "On paris."
    TransformQueryEngine(_engine(), IdentityQueryTransform()).query("Rome?")
    routed, transformed = traces()
    assert (routed.query, routed.response, routed.tags) == ("Paris?", "On paris.", {"engine": "RouterQueryEngine"})
    assert (transformed.query, transformed.tags) == ("Rome?", {"engine": "TransformQueryEngine"})
    assert (_ids(routed), _ids(transformed)) == (["paris-1", "paris-2"], ["rome-1", "rome-2"])


async def test_concurrent_queries_keep_apart(traces: Traces) -> None:
    engine = _engine()
    await asyncio.gather(*(engine.aquery(f"{city} {number}?") for number in range(10) for city in ("Paris", "Rome")))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(engine.query, [f"Oslo {number}?" for number in range(20)]))
    logged = traces()
    assert len(logged) == len({trace.query for trace in logged}) == 40
    for trace in logged:
        city = trace.query.split()[0].lower()
        assert (_ids(trace), trace.response) == ([f"{city}-1", f"{city}-2"], f"On {city}.")
        assert "parent_trace_id" not in trace.tags


def test_a_query_inside_an_explicit_trace_gives_it_its_nodes_and_is_not_logged_twice(
    client: TraceClient, traces: Traces
) -> None:
    @client.observe
    def answer(question: str) -> str:
        return str(_engine().query(question))

    @client.observe
    def reworded(question: str) -> str:
        return f"As I read: {_engine().query(question)}"

    answer("Paris?")
    (trace,) = traces()
    assert (trace.query, trace.response, trace.model) == ("Paris?", "On paris.", "scripted-1")
    assert _ids(trace) == ["paris-1", "paris-2"]
    reworded("Rome?")
    _, inner, outer = traces()
    assert (outer.response, inner.response) == ("As I read: On rome.", "On rome.")
    assert inner.tags["parent_trace_id"] == outer.trace_id
    assert _ids(inner) == _ids(outer) == ["rome-1", "rome-2"]


def test_retrieval_without_an_engine_belongs_to_the_explicit_trace_around_it(
    client: TraceClient, traces: Traces
) -> None:
    with client.trace(query="Paris?") as t:
        nodes = KeywordRetriever().retrieve("Paris?")
        t.response = ScriptedLLM(_said, model="m2").complete("Paris?").text
    with client.trace(query="Rome?", source_nodes=["said by the service"]):
        KeywordRetriever().retrieve("Rome?")
    KeywordRetriever().retrieve("Oslo?")
    first, second = traces()
    assert (_ids(first), first.response, first.model) == ([node.node_id for node in nodes], "On paris.", "m2")
    assert _texts(second) == ["said by the service"]


def test_a_synthesizer_without_an_engine_is_an_answer(traces: Traces) -> None:
    get_response_synthesizer(llm=ScriptedLLM(_said)).synthesize("Paris?", nodes_about("paris"))
    (trace,) = traces()
    assert (trace.query, trace.response, _ids(trace)) == ("Paris?", "On paris.", ["paris-1", "paris-2"])


def test_instrument_tags_are_fields_and_tags(traces: Traces) -> None:
    with instrument_tags({"session_id": "s1", "trace_id": "mine", "tier": "paid"}):
        _engine().query("Paris?")
    (trace,) = traces()
    assert (trace.trace_id, trace.session_id) == ("mine", "s1")
    assert trace.tags == {"engine": "RetrieverQueryEngine", "tier": "paid"}


# -- installing --------------------------------------------------------------------------------------------------------


def test_installing_twice_logs_once_and_uninstalling_stops_it(
    client: TraceClient, traces: Traces, transport: MemoryTransport
) -> None:
    root = get_dispatcher()
    before = (len(root.span_handlers), len(root.event_handlers))
    llama_index.install(client)
    _engine().query("Paris?")
    assert len(traces()) == 1
    assert (len(root.span_handlers), len(root.event_handlers)) == before
    llama_index.uninstall(client)
    assert (len(root.span_handlers), len(root.event_handlers)) == (before[0] - 1, before[1] - 1)
    _engine().query("Rome?")
    assert len(traces()) == 1


def test_a_query_under_way_while_uninstalling_is_still_logged(client: TraceClient, traces: Traces) -> None:
    class Own(CustomQueryEngine):
        def custom_query(self, query_str: str) -> str:
            llama_index.uninstall(client)
            return "r"

    Own().query("q")
    Own().query("later")
    assert [trace.query for trace in traces()] == ["q"]
    assert not any(type(handler).__name__ == "SpanListener" for handler in get_dispatcher().span_handlers)


def test_two_clients_hear_the_same(client: TraceClient, traces: Traces) -> None:
    other_transport = MemoryTransport()
    other = TraceClient(app="other", transport=other_transport)
    llama_index.install(other)
    _engine().query("Paris?")
    llama_index.uninstall(other)
    assert other.close(30)
    for heard in (traces(), traces_of(other_transport)):
        assert [(trace.query, _ids(trace)) for trace in heard] == [("Paris?", ["paris-1", "paris-2"])]
        assert heard[0].tags == {"engine": "RetrieverQueryEngine"}


def test_an_engine_whose_parts_cannot_be_read_answers_all_the_same(traces: Traces) -> None:
    class Odd(BaseQueryEngine):
        def __init__(self) -> None:
            super().__init__(None)

        @property
        def _llm(self) -> Any:
            raise RuntimeError("no model here")

        def _query(self, query_bundle: QueryBundle) -> Response:
            return Response("r", source_nodes=[NodeWithScore(node=nodes_about("oslo")[0].node, score=float("nan"))])

        async def _aquery(self, query_bundle: QueryBundle) -> Response:
            return self._query(query_bundle)

        def _get_prompt_modules(self) -> dict[str, Any]:
            return {}

    assert str(Odd().query("q")) == "r"
    (trace,) = traces()
    assert (trace.response, trace.source_nodes[0].score, trace.lossy) == ("r", None, True)
