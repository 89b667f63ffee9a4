"""The span processor: what ended spans said is gathered from the inside out until their local root ends."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import StatusCode

from tracejudge_sdk import forks
from tracejudge_sdk.integrations.opentelemetry.attributes import Said, kind_of, labels, read
from tracejudge_sdk.notices import debug

if TYPE_CHECKING:
    from tracejudge_sdk.client import TraceClient


MOST_PENDING: Final = 1000
MOST_PENDING_CHARS: Final = 16_000_000
_MOST_LOGGED: Final = 10_000
_FACT_CHARS: Final = 500  # what a fact costs beside its texts


@dataclass
class _Facts:
    """What ended below one span that is still open."""

    documents: list[dict[str, Any]] = field(default_factory=list)
    reranked: bool = False  # the documents stand in place of those found before
    asked: str | None = None  # of a retriever
    model: Said | None = None  # the last language model
    answers: list[dict[str, Any]] = field(default_factory=list)  # the outermost so far, ready to log
    labels: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    chars: int = 0

    def add(self, inner: _Facts) -> None:
        """Takes in what a span below said."""
        self.documents = inner.documents if inner.reranked else self.documents + inner.documents
        self.asked = self.asked or inner.asked
        self.model = inner.model or self.model
        self.answers = self.answers + inner.answers
        self.labels = {**inner.labels, **self.labels}
        self.error = inner.error or self.error
        self.chars += inner.chars


class TraceJudgeSpanProcessor(SpanProcessor):
    """Logs an answer when its local root span ends. Never raises into the code that ends a span."""

    def __init__(
        self, client: TraceClient, *, max_pending: int = MOST_PENDING, max_pending_chars: int = MOST_PENDING_CHARS
    ) -> None:
        """Below at most `max_pending` open spans, and about `max_pending_chars` characters, something waits."""
        self._client = client
        self._max_pending = max_pending
        self._max_chars = max_pending_chars
        self._lock = threading.RLock()
        # By OpenTelemetry's trace and the open span above, the oldest first.
        self._pending: OrderedDict[tuple[int, int], _Facts] = OrderedDict()
        self._chars = 0
        self._logged: OrderedDict[int, None] = OrderedDict()  # traces of which an answer was logged lately
        self.evicted = 0
        """How often something was logged, or given up where it held no answer, before its root ended."""
        self.failed = 0
        """Spans that could not be read."""
        forks.register(self)

    def on_end(self, span: ReadableSpan) -> None:
        """Gathers what the span says; at a local root, logs it."""
        try:
            with self._lock:
                ready = self._ended(span)
            for fields in ready:
                self._client.log(**fields)
        except Exception as error:  # noqa: BLE001 - it would come up in the service's own code
            self.failed += 1
            debug("tracejudge: a span could not be read: %s", type(error).__name__)

    def shutdown(self) -> None:
        """Logs what waits, and sends it."""
        with self._lock:
            ready = self._evicted(everything=True)
        for fields in ready:
            self._client.log(**fields)
        self._client.flush()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Sends what was logged; answers whose root is open wait on."""
        return self._client.flush(timeout_millis / 1000)

    @property
    def pending(self) -> int:
        """Open spans below which something waits."""
        return len(self._pending)

    def before_fork(self) -> None:
        """Holds the lock while the process forks."""
        self._lock.acquire()

    def after_fork(self) -> None:
        """Lets it go, in parent and child."""
        self._lock.release()

    # -- inside, under the lock --------------------------------------------------------------------------------------

    def _ended(self, span: ReadableSpan) -> list[dict[str, Any]]:
        context = span.get_span_context()
        attributes = span.attributes or {}
        kind = kind_of(attributes)
        if context is None or (kind is None and not self._pending):
            return []
        facts = self._pending.pop((context.trace_id, context.span_id), None)
        if facts is None:
            if kind is None:
                return []
            facts = _Facts()
        self._chars -= facts.chars
        if kind is not None:
            said = read(kind, attributes)
            facts.chars += _FACT_CHARS + _chars(said)
            _take(facts, said, span)
        if span.parent is None or span.parent.is_remote:
            return self._answers(context.trace_id, facts, span)
        self._chars += facts.chars
        above = (context.trace_id, span.parent.span_id)
        if above in self._pending:
            self._pending[above].add(facts)
        else:
            self._pending[above] = facts
        return self._evicted()

    def _evicted(self, *, everything: bool = False) -> list[dict[str, Any]]:
        ready: list[dict[str, Any]] = []
        while self._pending and (everything or len(self._pending) > self._max_pending or self._chars > self._max_chars):
            (trace_id, _), facts = self._pending.popitem(last=False)
            self._chars -= facts.chars
            self.evicted += not everything
            # A model or retriever that ended after its root belongs to an answer that was logged already.
            if facts.answers or trace_id not in self._logged:
                ready += self._answers(trace_id, facts, None)
        return ready

    def _answers(self, trace_id: int, facts: _Facts, root: ReadableSpan | None) -> list[dict[str, Any]]:
        answers = facts.answers
        if not answers and (facts.model is not None or facts.documents):
            answers = [_answer(None, facts, root)]
        alone = len(answers) == 1 and trace_id not in self._logged
        for fields in answers:
            span_id = fields.pop("span_id")
            fields["trace_id"] = f"{trace_id:032x}" if alone else f"{trace_id:032x}-{span_id:016x}"
        if answers:
            self._logged[trace_id] = None
            if len(self._logged) > _MOST_LOGGED:
                self._logged.popitem(last=False)
        return answers


def _take(facts: _Facts, said: Said, span: ReadableSpan) -> None:
    """Adds what the span says to what ended below it."""
    attributes = span.attributes or {}
    facts.labels = {**facts.labels, **labels(attributes)}
    if said.kind in ("retrieval", "rerank"):
        if said.documents:  # of a retriever inside a retriever, the outer one's
            facts.documents = list(said.documents)
        facts.asked = said.query or facts.asked
        facts.reranked = said.kind == "rerank"
    elif said.kind == "model":
        inner = facts.model or said  # a call of a model may be told on two levels, of which one knows more
        facts.model = replace(
            said,
            query=said.query or inner.query,
            response=said.response or inner.response,
            model=said.model or inner.model,
            history=said.history or inner.history,
        )
        facts.error = _error_of(span) or facts.error
    elif said.query is not None or said.response is not None:
        outer = _answer(said, facts, span)
        for said_inside in reversed(facts.answers):  # an agent that says nothing itself says what was last said inside
            for name in ("query", "response", "model"):
                if outer[name] is None:
                    outer[name] = said_inside[name]
        facts.answers = [outer]


def _answer(said: Said | None, facts: _Facts, span: ReadableSpan | None) -> dict[str, Any]:
    model = facts.model or Said("model")
    query = (said.query if said is not None else None) or facts.asked or model.query
    response = (said.response if said is not None else None) or model.response
    fields: dict[str, Any] = {
        **facts.labels,
        "query": query,
        "response": response,
        "source_nodes": list(facts.documents),
        "model": model.model or (said.model if said is not None else None),
        "history": list((said.history if said is not None else ()) or model.history),
        "span_id": 0,
    }
    tags = dict(fields.get("tags", {}))
    error = facts.error if said is None else None
    if span is not None:
        context = span.get_span_context()
        fields["span_id"] = 0 if context is None else context.span_id
        if span.start_time is not None and span.end_time is not None:
            fields["latency_ms"] = (span.end_time - span.start_time) / 1e6
            fields["event_time"] = datetime.fromtimestamp(span.end_time / 1e9, timezone.utc)
        error = _error_of(span) or error
        if span.dropped_attributes:
            tags["otel_dropped_attributes"] = span.dropped_attributes
    if error is not None:
        fields.update(status="error", error=error)
    fields["tags"] = tags
    return fields


def _error_of(span: ReadableSpan) -> str | None:
    if span.status.status_code is not StatusCode.ERROR:
        return None
    for event in reversed(span.events):
        if event.name == "exception" and event.attributes:
            kind, message = event.attributes.get("exception.type"), event.attributes.get("exception.message")
            return f"{kind}: {message}"
    return span.status.description or "error"


def _chars(said: Said) -> int:
    texts = [said.query or "", said.response or "", *(text for turn in said.history for text in turn)]
    nodes = sum(len(str(node["text"] or "")) + len(str(node["metadata"])) for node in said.documents)
    return nodes + sum(map(len, texts))
