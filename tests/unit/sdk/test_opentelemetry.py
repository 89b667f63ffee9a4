"""Spans of the real OpenTelemetry SDK, with the attributes that OpenInference and the GenAI conventions name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytest
from openinference.semconv.trace import (
    DocumentAttributes,
    MessageAttributes,
    OpenInferenceSpanKindValues,
    RerankerAttributes,
    SpanAttributes,
)
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags, Tracer

from tests.support.logged_traces import Traces
from tracejudge_sdk import TraceClient
from tracejudge_sdk.integrations.opentelemetry import TraceJudgeSpanProcessor

Kinds = OpenInferenceSpanKindValues


@pytest.fixture
def processor(client: TraceClient) -> TraceJudgeSpanProcessor:
    return TraceJudgeSpanProcessor(client, max_pending=5)


@pytest.fixture
def tracer(processor: TraceJudgeSpanProcessor) -> Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider.get_tracer("tests")


def open_(tracer: Tracer, kind: Kinds, attributes: Mapping[str, Any]) -> AbstractContextManager[Span]:
    return tracer.start_as_current_span(
        kind.value.lower(), attributes={SpanAttributes.OPENINFERENCE_SPAN_KIND: kind.value, **attributes}
    )


def documents(prefix: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, word in enumerate(words):
        found[f"{prefix}.{number}.{DocumentAttributes.DOCUMENT_ID}"] = f"id-{word}"
        found[f"{prefix}.{number}.{DocumentAttributes.DOCUMENT_CONTENT}"] = f"text {word}"
        found[f"{prefix}.{number}.{DocumentAttributes.DOCUMENT_SCORE}"] = 1 / (number + 1)
        found[f"{prefix}.{number}.{DocumentAttributes.DOCUMENT_METADATA}"] = json.dumps({"source": word})
    return found


def retrieved(*words: str) -> dict[str, Any]:
    return {SpanAttributes.INPUT_VALUE: "asked", **documents(SpanAttributes.RETRIEVAL_DOCUMENTS, *words)}


def model(answer: str = "Paris.", name: str = "m1") -> dict[str, Any]:
    messages = [("system", "be kind"), ("user", "Hello"), ("assistant", "Hi"), ("user", "context ... capital?")]
    found: dict[str, Any] = {SpanAttributes.LLM_MODEL_NAME: name}
    for number, (role, content) in enumerate(messages):
        prefix = f"{SpanAttributes.LLM_INPUT_MESSAGES}.{number}"
        found[f"{prefix}.{MessageAttributes.MESSAGE_ROLE}"] = role
        found[f"{prefix}.{MessageAttributes.MESSAGE_CONTENT}"] = content
    found[f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.0.{MessageAttributes.MESSAGE_ROLE}"] = "assistant"
    found[f"{SpanAttributes.LLM_OUTPUT_MESSAGES}.0.{MessageAttributes.MESSAGE_CONTENT}"] = answer
    return found


CHAIN = {SpanAttributes.INPUT_VALUE: "capital?", SpanAttributes.OUTPUT_VALUE: "Paris."}


def test_an_openinference_chain_is_a_trace(tracer: Tracer, traces: Traces) -> None:
    more = {SpanAttributes.SESSION_ID: "s1", SpanAttributes.USER_ID: "u1", SpanAttributes.METADATA: '{"tier": "paid"}'}
    with tracer.start_as_current_span("GET /ask") as root:
        with open_(tracer, Kinds.CHAIN, {**CHAIN, **more}):
            with open_(tracer, Kinds.RETRIEVER, retrieved("a", "b")):
                pass
            with open_(tracer, Kinds.LLM, model()):
                pass
        assert traces() == []
    (trace,) = traces()
    assert trace.trace_id == f"{root.get_span_context().trace_id:032x}"
    assert (trace.query, trace.response, trace.status, trace.model) == ("capital?", "Paris.", "ok", "m1")
    assert [(node.node_id, node.text, node.score, node.metadata) for node in trace.source_nodes] == [
        ("id-a", "text a", 1.0, {"source": "a"}),
        ("id-b", "text b", 0.5, {"source": "b"}),
    ]
    assert [(turn.role, turn.content) for turn in trace.history] == [("user", "Hello"), ("assistant", "Hi")]
    assert (trace.session_id, trace.user_id, trace.tags) == ("s1", "u1", {"tier": "paid"})
    assert trace.latency_ms is not None
    assert not trace.lossy


def test_json_inputs_and_outputs_are_read(tracer: Tracer, traces: Traces) -> None:
    values = {
        SpanAttributes.INPUT_VALUE: '{"str_or_query_bundle": {"query_str": "capital?"}}',
        SpanAttributes.OUTPUT_VALUE: '{"response": "Paris.", "source_nodes": []}',
    }
    with open_(tracer, Kinds.CHAIN, values):
        pass
    with open_(tracer, Kinds.CHAIN, {SpanAttributes.INPUT_VALUE: "{no json", SpanAttributes.OUTPUT_VALUE: "[1"}):
        pass
    assert [(trace.query, trace.response) for trace in traces()] == [("capital?", "Paris."), ("{no json", "[1")]


def test_the_outermost_answer_counts_with_all_that_was_retrieved_inside(tracer: Tracer, traces: Traces) -> None:
    with open_(tracer, Kinds.AGENT, {SpanAttributes.INPUT_VALUE: "outer"}):
        for word in ("a", "b"):
            inner = {SpanAttributes.INPUT_VALUE: f"inner {word}", SpanAttributes.OUTPUT_VALUE: f"said {word}"}
            with open_(tracer, Kinds.CHAIN, inner), open_(tracer, Kinds.RETRIEVER, retrieved(word)):
                pass
    (trace,) = traces()
    assert (trace.query, trace.response) == ("outer", "said b")
    assert [node.node_id for node in trace.source_nodes] == ["id-a", "id-b"]


def test_a_reranker_replaces_and_an_outer_retriever_covers_the_inner(tracer: Tracer, traces: Traces) -> None:
    with open_(tracer, Kinds.CHAIN, CHAIN):
        with open_(tracer, Kinds.RETRIEVER, retrieved("a", "b")), open_(tracer, Kinds.RETRIEVER, retrieved("c")):
            pass
        reranked = documents(RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS, "b", "a")
        with open_(tracer, Kinds.RERANKER, reranked):
            pass
    outer = open_(tracer, Kinds.RETRIEVER, retrieved("a", "b"))
    with open_(tracer, Kinds.CHAIN, CHAIN), outer, open_(tracer, Kinds.RETRIEVER, retrieved("c")):
        pass
    assert [[node.node_id for node in trace.source_nodes] for trace in traces()] == [["id-b", "id-a"], ["id-a", "id-b"]]


def test_several_answers_in_one_trace_are_told_apart(tracer: Tracer, traces: Traces) -> None:
    with tracer.start_as_current_span("batch") as root:
        for word in ("a", "b"):
            answer = open_(tracer, Kinds.CHAIN, {**CHAIN, SpanAttributes.INPUT_VALUE: word})
            with answer, open_(tracer, Kinds.RETRIEVER, retrieved(word)):
                pass
    first, second = traces()
    prefix = f"{root.get_span_context().trace_id:032x}-"
    assert first.trace_id.startswith(prefix)
    assert second.trace_id.startswith(prefix)
    assert first.trace_id != second.trace_id
    assert [(trace.query, trace.source_nodes[0].node_id) for trace in (first, second)] == [("a", "id-a"), ("b", "id-b")]


def test_gen_ai_spans_below_a_root_make_an_answer(tracer: Tracer, traces: Traces) -> None:
    found = json.dumps([{"id": "d1", "score": 0.9, "content": "text 1"}, {"id": "d2", "score": 0.5}])
    asked = json.dumps(
        [
            {"role": "system", "parts": [{"type": "text", "content": "be kind"}]},
            {"role": "user", "parts": [{"type": "text", "content": "capital"}, {"type": "text", "content": "?"}]},
        ]
    )
    said = json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": "Paris."}], "finish_reason": "stop"}]
    )
    with tracer.start_as_current_span("POST /chat"):
        with tracer.start_as_current_span(
            "retrieval",
            attributes={
                gen_ai.GEN_AI_OPERATION_NAME: "retrieval",
                gen_ai.GEN_AI_RETRIEVAL_QUERY_TEXT: "capital?",
                gen_ai.GEN_AI_RETRIEVAL_DOCUMENTS: found,
            },
        ):
            pass
        with tracer.start_as_current_span(
            "chat m1",
            attributes={
                gen_ai.GEN_AI_OPERATION_NAME: "chat",
                gen_ai.GEN_AI_REQUEST_MODEL: "m1",
                gen_ai.GEN_AI_RESPONSE_MODEL: "m1-2026",
                gen_ai.GEN_AI_CONVERSATION_ID: "c1",
                gen_ai.GEN_AI_INPUT_MESSAGES: asked,
                gen_ai.GEN_AI_OUTPUT_MESSAGES: said,
            },
        ):
            pass
    (trace,) = traces()
    assert (trace.query, trace.response, trace.model, trace.session_id) == ("capital?", "Paris.", "m1-2026", "c1")
    assert [(node.node_id, node.text, node.score) for node in trace.source_nodes] == [
        ("d1", "text 1", 0.9),
        ("d2", None, 0.5),
    ]


def test_a_gen_ai_agent_is_an_answer(tracer: Tracer, traces: Traces) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    asked = json.dumps([*messages, {"role": "user", "content": "capital?"}])
    with tracer.start_as_current_span(
        "invoke_agent",
        attributes={
            gen_ai.GEN_AI_OPERATION_NAME: "invoke_agent",
            gen_ai.GEN_AI_INPUT_MESSAGES: asked,
            gen_ai.GEN_AI_OUTPUT_MESSAGES: json.dumps([{"role": "assistant", "content": "Paris."}]),
        },
    ):
        pass
    (trace,) = traces()
    assert (trace.query, trace.response) == ("capital?", "Paris.")
    assert [turn.content for turn in trace.history] == ["Hi", "Yes?"]


def test_a_span_with_an_error_is_an_error(tracer: Tracer, traces: Traces) -> None:
    own = ConnectionError("model gone")

    def answer() -> None:
        with open_(tracer, Kinds.CHAIN, {SpanAttributes.INPUT_VALUE: "capital?"}):
            with open_(tracer, Kinds.RETRIEVER, retrieved("a")):
                pass
            raise own

    with pytest.raises(ConnectionError) as seen:
        answer()
    assert seen.value is own
    (trace,) = traces()
    assert (trace.status, trace.error, trace.response) == ("error", "ConnectionError: model gone", None)
    assert [node.node_id for node in trace.source_nodes] == ["id-a"]


def test_a_remote_parent_is_no_parent_of_ours(tracer: Tracer, traces: Traces) -> None:
    remote = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    context = otel.set_span_in_context(NonRecordingSpan(remote))
    kind = {SpanAttributes.OPENINFERENCE_SPAN_KIND: "CHAIN", **CHAIN}
    with tracer.start_as_current_span("server", context=context), tracer.start_as_current_span("c", attributes=kind):
        pass
    with tracer.start_as_current_span("server", context=context), tracer.start_as_current_span("c", attributes=kind):
        pass
    first, second = traces()
    assert first.trace_id == f"{0xABC:032x}"
    assert second.trace_id.startswith(f"{0xABC:032x}-")


def test_spans_of_other_kinds_are_nothing_and_hold_nothing(
    tracer: Tracer, traces: Traces, processor: TraceJudgeSpanProcessor
) -> None:
    with tracer.start_as_current_span("GET /"), tracer.start_as_current_span("SELECT"):
        pass
    with tracer.start_as_current_span("GET /"), open_(tracer, Kinds.TOOL, CHAIN):
        pass
    assert traces() == []
    assert processor.pending == 0


def test_what_waits_for_roots_that_never_end_is_bounded(
    tracer: Tracer, traces: Traces, processor: TraceJudgeSpanProcessor
) -> None:
    for number in range(20):
        root = tracer.start_span(f"worker loop {number}")  # never ended
        with otel.use_span(root, end_on_exit=False), open_(tracer, Kinds.CHAIN, {**CHAIN, "input.value": f"q{number}"}):
            pass
    assert processor.pending == 5
    assert processor.evicted == 15
    assert [trace.query for trace in traces()] == [f"q{number}" for number in range(15)]
    processor.shutdown()
    assert [trace.query for trace in traces()] == [f"q{number}" for number in range(20)]
    assert processor.pending == 0


def test_what_waits_below_one_root_is_bounded_by_its_size(client: TraceClient, traces: Traces) -> None:
    processor = TraceJudgeSpanProcessor(client, max_pending_chars=50_000)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("tests")
    root = tracer.start_span("worker loop")
    with otel.use_span(root, end_on_exit=False):
        for number in range(100):
            values = {SpanAttributes.INPUT_VALUE: f"q{number}", SpanAttributes.OUTPUT_VALUE: "x" * 2_000}
            with open_(tracer, Kinds.CHAIN, values):
                pass
    root.end()
    logged = traces()
    assert [trace.query for trace in logged] == [f"q{number}" for number in range(100)]
    assert len({trace.trace_id for trace in logged}) == 100
    assert processor.evicted > 3


def test_a_span_that_ends_after_its_root_makes_no_second_answer(
    tracer: Tracer, traces: Traces, processor: TraceJudgeSpanProcessor
) -> None:
    with open_(tracer, Kinds.CHAIN, CHAIN):
        late = tracer.start_span("late", attributes={SpanAttributes.OPENINFERENCE_SPAN_KIND: "LLM", **model()})
    late.end()
    processor.shutdown()
    assert len(traces()) == 1


def test_attributes_of_the_wrong_type_raise_nothing_into_the_service(
    tracer: Tracer, traces: Traces, processor: TraceJudgeSpanProcessor
) -> None:
    odd = {SpanAttributes.INPUT_VALUE: 5, SpanAttributes.OUTPUT_VALUE: (1, 2), SpanAttributes.METADATA: "[1]"}
    document = {"retrieval.documents.0.document.content": True}
    with open_(tracer, Kinds.CHAIN, odd), open_(tracer, Kinds.RETRIEVER, document):
        pass
    (trace,) = traces()
    assert (trace.query, trace.response, trace.source_nodes[0].text, trace.lossy) == ("5", "(1, 2)", None, True)
    assert processor.failed == 0
