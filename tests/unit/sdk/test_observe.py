"""`@observe`: each call becomes a trace; the function stays what it was."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import tracejudge_sdk
from tests.support.logged_traces import Traces
from tracejudge_sdk import TraceClient, current_trace, observe

# -- functions of every kind -------------------------------------------------------------------------------------------


def test_a_function_is_logged_with_its_question_answer_and_duration(client: TraceClient, traces: Traces) -> None:
    @client.observe
    def answer(question: str, k: int = 3) -> str:
        """What a person reads."""
        return question.upper()

    assert answer("why?") == "WHY?"
    assert (answer.__name__, answer.__doc__) == ("answer", "What a person reads.")
    (trace,) = traces()
    assert (trace.query, trace.response, trace.status) == ("why?", "WHY?", "ok")
    assert trace.latency_ms is not None
    assert not trace.lossy


async def test_a_coroutine_function_stays_one(client: TraceClient, traces: Traces) -> None:
    @client.observe(category="faq")
    async def answer(question: str) -> str:
        await asyncio.sleep(0)
        return "because"

    assert inspect.iscoroutinefunction(answer)
    assert await answer(question="why?") == "because"
    (trace,) = traces()
    assert (trace.query, trace.response, trace.category) == ("why?", "because", "faq")


def test_methods_are_observed_without_self(client: TraceClient, traces: Traces) -> None:
    class Service:
        @client.observe
        def answer(self, text: str) -> str:
            return text + "!"

    assert Service().answer("hey") == "hey!"
    assert traces()[0].query == "hey"


def test_the_functions_own_exception_passes_through_as_it_is(client: TraceClient, traces: Traces) -> None:
    own = LookupError("no index")

    @client.observe
    def answer(question: str) -> str:
        raise own

    with pytest.raises(LookupError) as seen:
        answer("why?")
    assert seen.value is own
    assert own.__context__ is None
    (trace,) = traces()
    assert (trace.status, trace.error, trace.response) == ("error", "LookupError: no index", None)


async def test_a_cancelled_coroutine_is_incomplete(client: TraceClient, traces: Traces) -> None:
    started = asyncio.Event()

    @client.observe
    async def answer(question: str) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    task = asyncio.create_task(answer("why?"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (trace,) = traces()
    assert (trace.status, trace.error) == ("incomplete", "CancelledError")


def test_a_misshapen_call_raises_what_it_would_have_raised(client: TraceClient) -> None:
    @client.observe
    def answer(question: str) -> str:
        return question

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'question'"):
        answer()  # type: ignore[call-arg]


# -- streams -----------------------------------------------------------------------------------------------------------


def test_a_stream_reaches_its_reader_piece_by_piece_and_is_logged_when_it_ends(
    client: TraceClient, traces: Traces
) -> None:
    read: list[str] = []

    @client.observe
    def answer(question: str) -> Generator[str, None, str]:
        for position, piece in enumerate(("Par", "is", ".")):
            # The reader has every piece before the source is asked for the next one, the first included.
            assert len(read) == position
            yield piece
        return "done"

    assert inspect.isgeneratorfunction(answer)
    stream = answer("capital?")
    assert traces() == []

    def reader() -> Iterator[str]:
        ended.append((yield from stream))

    ended: list[str] = []
    for piece in reader():
        read.append(piece)  # noqa: PERF402 - one by one is the point
    assert (read, ended) == (["Par", "is", "."], ["done"])
    (trace,) = traces()
    assert (trace.query, trace.response, trace.status) == ("capital?", "Paris.", "ok")


def test_b16_a_reader_that_stops_leaves_an_incomplete_trace_with_what_it_got(
    client: TraceClient, traces: Traces
) -> None:
    closed: list[bool] = []

    @client.observe
    def answer(question: str) -> Iterator[str]:
        try:
            yield "Par"
            yield "is"
        finally:
            closed.append(True)

    stream: Any = answer("capital?")
    assert next(stream) == "Par"
    stream.close()
    assert closed == [True]
    (trace,) = traces()
    assert (trace.status, trace.response) == ("incomplete", "Par")


def test_a_stream_that_is_dropped_is_incomplete(client: TraceClient, traces: Traces) -> None:
    @client.observe
    def answer(question: str) -> Iterator[str]:
        yield from ("Par", "is")

    stream = iter(answer("capital?"))
    assert next(stream) == "Par"
    del stream
    gc.collect()
    assert [(trace.status, trace.response) for trace in traces()] == [("incomplete", "Par")]


def test_a_stream_that_breaks_hands_on_its_exception(client: TraceClient, traces: Traces) -> None:
    own = ConnectionError("model gone")

    @client.observe
    def answer(question: str) -> Iterator[str]:
        yield "Par"
        raise own

    stream = answer("capital?")
    assert next(stream) == "Par"
    with pytest.raises(ConnectionError) as seen:
        next(stream)
    assert seen.value is own
    (trace,) = traces()
    assert (trace.status, trace.response, trace.error) == ("error", "Par", "ConnectionError: model gone")


def test_what_the_reader_sends_and_throws_reaches_the_source(client: TraceClient, traces: Traces) -> None:
    @client.observe
    def answer(question: str) -> Generator[str, str, None]:
        got = yield "a"
        try:
            yield got
        except KeyError as error:
            yield f"caught {error}"

    stream: Any = answer("q")
    assert next(stream) == "a"
    assert stream.send("b") == "b"
    assert stream.throw(KeyError("k")) == "caught 'k'"
    assert list(stream) == []
    assert traces()[0].response == "abcaught 'k'"


async def test_an_async_stream_is_logged_whole(client: TraceClient, traces: Traces) -> None:
    @client.observe
    async def answer(question: str) -> AsyncIterator[str]:
        for piece in ("Par", "is"):
            await asyncio.sleep(0)
            yield piece

    assert inspect.isasyncgenfunction(answer)
    assert [piece async for piece in answer("capital?")] == ["Par", "is"]
    (trace,) = traces()
    assert (trace.response, trace.status) == ("Paris", "ok")


async def test_an_async_stream_that_is_closed_dropped_or_cancelled_is_incomplete(
    client: TraceClient, traces: Traces
) -> None:
    ended: list[str] = []

    @client.observe
    async def answer(question: str) -> AsyncGenerator[str, None]:
        try:
            yield "Par"
            await asyncio.Event().wait()
            yield "is"
        finally:
            ended.append(question)

    stream: Any = answer("closed")
    assert await anext(stream) == "Par"
    await stream.aclose()

    stream = answer("dropped")
    assert await anext(stream) == "Par"
    del stream
    await asyncio.get_running_loop().shutdown_asyncgens()  # as the event loop does at its end

    async def read() -> None:
        async for _ in answer("cancelled"):
            waiting.set()

    waiting = asyncio.Event()
    task = asyncio.create_task(read())
    await waiting.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["closed", "dropped", "cancelled"]
    assert [(trace.query, trace.status, trace.response) for trace in traces()] == [
        ("closed", "incomplete", "Par"),
        ("dropped", "incomplete", "Par"),
        ("cancelled", "incomplete", "Par"),
    ]


def test_an_async_stream_whose_loop_is_gone_is_incomplete(client: TraceClient, traces: Traces) -> None:
    @client.observe
    async def answer(question: str) -> AsyncGenerator[str, None]:
        yield "Par"
        yield "is"

    stream: Any = answer("q")
    # Stepped by hand: no event loop knows of it, so nobody closes it.
    with pytest.raises(StopIteration):
        anext(stream).__await__().send(None)
    del stream
    gc.collect()
    assert [(trace.status, trace.response) for trace in traces()] == [("incomplete", "Par")]


async def test_what_is_sent_into_an_async_stream_reaches_the_source(client: TraceClient, traces: Traces) -> None:
    @client.observe
    async def answer(question: str) -> AsyncGenerator[str, str]:
        got = yield "a"
        try:
            yield got
        except KeyError as error:
            yield f"caught {error}"

    stream: Any = answer("q")
    assert await anext(stream) == "a"
    assert await stream.asend("b") == "b"
    assert await stream.athrow(KeyError("k")) == "caught 'k'"
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert traces()[0].response == "abcaught 'k'"


def test_a_function_that_returns_a_stream_is_logged_when_that_ends(client: TraceClient, traces: Traces) -> None:
    @client.observe
    def answer(question: str) -> Iterator[str]:
        return (piece for piece in ("Par", "is"))

    stream = answer("capital?")
    assert traces() == []
    assert list(stream) == ["Par", "is"]
    assert traces()[0].response == "Paris"

    stream = answer("dropped unread")
    del stream
    gc.collect()
    assert [(trace.query, trace.status) for trace in traces()][1:] == [("dropped unread", "incomplete")]


async def test_a_function_that_returns_a_coroutine_or_an_async_stream_is_logged_when_that_ends(
    client: TraceClient, traces: Traces
) -> None:
    async def later(text: str) -> str:
        return text

    async def pieces() -> AsyncIterator[str]:
        yield "b"

    assert await client.observe(lambda question: later("a"))("1") == "a"
    assert [piece async for piece in client.observe(lambda question: pieces())("2")] == ["b"]
    assert [(trace.query, trace.response) for trace in traces()] == [("1", "a"), ("2", "b")]


def test_bytes_of_a_stream_are_put_together_before_they_are_read_as_text(client: TraceClient, traces: Traces) -> None:
    @client.observe
    def answer(question: str) -> Iterator[bytes]:
        for byte in "Zürich €".encode():
            yield bytes([byte])

    assert b"".join(answer("q")).decode() == "Zürich €"
    assert traces()[0].response == "Zürich €"


# -- the rules ---------------------------------------------------------------------------------------------------------


@dataclass
class Request:
    question: str
    user: str


def test_paths_and_functions_say_where_everything_is(client: TraceClient, traces: Traces) -> None:
    @client.observe(
        query="request.question",
        response="reply.text",
        source_nodes=lambda result: result["found"],
        user_id=lambda arguments: arguments["request"].user,
        tags={"tier": "paid"},
    )
    def answer(request: Request) -> dict[str, Any]:
        return {"reply": {"text": "r"}, "found": ["p1", "p2"]}

    answer(Request("q", "u7"))
    (trace,) = traces()
    assert (trace.query, trace.response, trace.user_id, trace.tags) == ("q", "r", "u7", {"tier": "paid"})
    assert [node.text for node in trace.source_nodes] == ["p1", "p2"]


@dataclass
class Reply:
    answer: str
    sources: list[str]


@pytest.mark.parametrize(
    "result",
    [
        {"answer": "r", "source_nodes": ["p"]},
        {"response": "r", "documents": ["p"]},
        Reply("r", ["p"]),
        ("r", ["p"]),
        ({"text": "r"}, ["p"]),
    ],
)
def test_usual_results_are_read_without_rules(client: TraceClient, traces: Traces, result: Any) -> None:
    assert client.observe(lambda query: result)("q") is result
    (trace,) = traces()
    assert (trace.query, trace.response, [node.text for node in trace.source_nodes]) == ("q", "r", ["p"])


def test_the_query_is_found_by_name_before_place(client: TraceClient, traces: Traces) -> None:
    @client.observe
    def answer(tenant: str, message: str) -> str:
        return "r"

    @client.observe
    def other(number: int, words: str) -> str:
        return "r"

    answer("acme", "named")
    other(5, "first text")
    assert [trace.query for trace in traces()] == ["named", "first text"]


def test_a_rule_for_a_stream_gets_its_pieces(client: TraceClient, traces: Traces) -> None:
    @client.observe(response=lambda pieces: pieces[-1]["whole"], source_nodes="nodes")
    def answer(question: str) -> Iterator[dict[str, Any]]:
        yield {"nodes": ["p"], "delta": "Par"}
        yield {"whole": "Paris", "delta": "is"}

    assert len(list(answer("q"))) == 2
    (trace,) = traces()
    assert (trace.response, [node.text for node in trace.source_nodes]) == ("Paris", ["p"])


def test_a_rule_that_fails_leaves_its_field_out_and_says_so_without_the_text(
    client: TraceClient, traces: Traces, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(arguments: Any) -> str:
        raise ValueError(f"secret {arguments['question']}")

    @client.observe(query=broken, response="nowhere.to.be.found")
    def answer(question: str) -> str:
        return "r"

    assert answer("hush") == "r"
    assert answer("hush") == "r"
    assert [(trace.query, trace.response, trace.status) for trace in traces()] == [("", None, "ok")] * 2
    (message,) = caplog.messages
    assert "observe(query=...)" in message
    assert "ValueError" in message
    assert "hush" not in message


# -- nested code -------------------------------------------------------------------------------------------------------


def test_code_inside_adds_source_nodes_to_the_current_trace(client: TraceClient, traces: Traces) -> None:
    def retrieve(texts: list[str]) -> None:
        trace = current_trace()
        assert trace is not None
        trace.add_source_nodes(texts)
        trace.add_source_nodes({"node_id": "n3", "text": "p3"})
        trace.model = "m"

    @client.observe
    def answer(question: str) -> str:
        retrieve(["p1", "p2"])
        return "r"

    answer("q")
    assert current_trace() is None
    (trace,) = traces()
    assert [node.text for node in trace.source_nodes] == ["p1", "p2", "p3"]
    assert (trace.model, trace.response) == ("m", "r")


async def test_concurrent_calls_have_a_trace_each(client: TraceClient, traces: Traces) -> None:
    @client.observe
    async def answer(question: str) -> str:
        for number in range(3):
            await asyncio.sleep(0)
            trace = current_trace()
            assert trace is not None
            trace.add_source_nodes(f"{question}-{number}")
        return await asyncio.to_thread(in_thread, question)

    def in_thread(question: str) -> str:
        trace = current_trace()
        assert trace is not None
        return f"{question} {trace.query}"

    await asyncio.gather(*(answer(f"q{number}") for number in range(20)))
    assert len(traces()) == 20
    for trace in traces():
        assert [node.text for node in trace.source_nodes] == [f"{trace.query}-{number}" for number in range(3)]
        assert trace.response == f"{trace.query} {trace.query}"


def test_a_stream_is_current_only_while_its_source_runs(client: TraceClient, traces: Traces) -> None:
    @client.observe
    def answer(question: str) -> Iterator[str]:
        trace = current_trace()
        assert trace is not None
        trace.add_source_nodes("p")
        yield "a"
        assert current_trace() is trace
        yield "b"

    with client.trace(query="outer") as outer:
        for _ in answer("inner"):
            assert current_trace() is outer
    assert [trace.query for trace in traces()] == ["inner", "outer"]
    assert [node.text for node in traces()[0].source_nodes] == ["p"]


# -- which client ------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_default() -> Iterator[None]:
    tracejudge_sdk.set_default_client(None)
    yield
    tracejudge_sdk.set_default_client(None)


def test_the_default_client_is_used_where_none_is_named(client: TraceClient, traces: Traces, no_default: None) -> None:
    @observe
    def answer(question: str) -> str:
        return "r"

    tracejudge_sdk.set_default_client(client)
    answer("q")
    assert [trace.query for trace in traces()] == ["q"]


def test_without_settings_the_function_works_and_one_warning_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, no_default: None
) -> None:
    monkeypatch.delenv("TRACEJUDGE_QUEUE", raising=False)

    @observe
    def answer(question: str) -> str:
        return "r"

    @observe
    def stream(question: str) -> Iterator[str]:
        yield "r"

    assert (answer("q"), answer("q"), list(stream("q"))) == ("r", "r", ["r"])
    assert [message for message in caplog.messages if "TRACEJUDGE_QUEUE" in message] == caplog.messages
    assert len(caplog.messages) == 1


def test_the_default_client_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, no_default: None) -> None:
    monkeypatch.setenv("TRACEJUDGE_QUEUE", "memory://observed")
    monkeypatch.setenv("TRACEJUDGE_APP", "shop")
    client = tracejudge_sdk.default_client()
    assert client is not None
    assert client is tracejudge_sdk.default_client()
    assert client.settings.app == "shop"
    client.close(1)


def test_rules_survive_results_whose_attributes_raise(client: TraceClient, traces: Traces) -> None:
    class Odd:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

        def __repr__(self) -> str:
            raise RuntimeError("repr")

    odd = Odd()
    assert client.observe(lambda question: odd)(odd) is odd
    (trace,) = traces()
    assert trace.lossy
