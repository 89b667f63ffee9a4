"""OpenTelemetry: a span processor that turns spans of RAG instrumentation into traces.

    provider.add_span_processor(TraceJudgeSpanProcessor(client))

It reads the attributes of OpenInference and of OpenTelemetry's GenAI conventions, whoever set them (`attributes`):

* an **answer** is a span of kind CHAIN or AGENT (OpenInference), or of operation invoke_agent or invoke_workflow
  (GenAI), that has an input or an output; the outermost of those inside each other. A local root without one, but with
  spans of retrieval or of a language model below it, is an answer put together from these.
* query and response: the answer span's input and output, else what the retriever was asked and the last model said
* source nodes: the documents of the retrieval spans below it, in order; those of a reranker in their place; of a
  retriever inside another the outer one's
* model and earlier turns: of the last language model span; duration: the answer span's; status error: the span's own
* session.id or gen_ai.conversation.id, user.id, metadata and tag.tags: session_id, user_id, tags
* trace_id: the 32 hex digits of the OpenTelemetry trace; where that holds several answers, the span's id behind it

Traces are logged when the local root span ends. What waits until then is bounded by number and size: below roots that
do not end, the oldest is logged as it is (`evicted` counts it). Documents beyond the span's limit of attributes (128 by
default: OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT) never get here; the tag `otel_dropped_attributes` says so.
"""

from __future__ import annotations

try:
    import opentelemetry.sdk.trace as _sdk  # noqa: F401
except ImportError as error:
    raise ImportError(
        "tracejudge_sdk.integrations.opentelemetry needs OpenTelemetry: pip install 'opentelemetry-sdk>=1.25'"
    ) from error

from tracejudge_sdk.integrations.opentelemetry.processor import TraceJudgeSpanProcessor

__all__ = ["TraceJudgeSpanProcessor"]
