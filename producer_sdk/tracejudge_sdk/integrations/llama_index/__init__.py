"""LlamaIndex, in one line: every answer of its query and chat engines becomes a trace.

    from tracejudge_sdk.integrations import llama_index
    llama_index.install(client)

It listens to LlamaIndex's own instrumentation and changes no engine. What becomes a trace, and from what:

* the calls `query`, `aquery` of a query engine, `chat`, `achat`, `stream_chat`, `astream_chat` of a chat engine, and
  `synthesize`, `asynthesize` of a response synthesizer that no engine called
* query: the argument; response: the result's text, of a stream when its reader has come to the end (incomplete where it
  stopped earlier); duration: until then
* source nodes: those of the result, else those given to the synthesizer, else those retrieved
* model: of the last language model that was called, else of the engine's own
* history: the argument `chat_history`, else the earlier turns among the messages that the model got
* error: what the call raised; a cancelled call is incomplete
* tags: the engine's class under `engine`, and LlamaIndex's `instrument_tags`; of these, names of fields of `log()`
  (session_id, user_id, trace_id, ...) become those fields

A query inside another, or inside `client.trace()` and `@observe`, is told by `nesting`: handed on word for word it is
the same answer, otherwise a trace of its own with the tag `parent_trace_id`, unless `install(client, nested=False)`.
What is retrieved inside an explicit trace without an engine becomes its source nodes where it has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

try:
    from llama_index_instrumentation import get_dispatcher
except ImportError as error:
    raise ImportError(
        "tracejudge_sdk.integrations.llama_index needs LlamaIndex: pip install 'llama-index-core>=0.14'"
    ) from error

from tracejudge_sdk.integrations.llama_index.handlers import EventListener, SpanListener
from tracejudge_sdk.integrations.llama_index.watcher import Watcher

if TYPE_CHECKING:
    from tracejudge_sdk.client import TraceClient

__all__ = ["install", "uninstall"]

_installed: Final[list[tuple[TraceClient, Watcher, SpanListener, EventListener]]] = []


def install(client: TraceClient, *, nested: bool = True) -> None:
    """Logs every answer from now on to `client`; a second call for the same client only sets `nested`.

    `nested=False` logs the outermost answers alone.
    """
    for known, watcher, _, _ in _installed:
        if known is client:
            watcher.nested = nested
            return
    watcher = Watcher(client, nested=nested)
    spans, events = SpanListener.of(watcher), EventListener.of(watcher)
    root = get_dispatcher()
    root.add_span_handler(spans)
    root.add_event_handler(events)
    _installed.append((client, watcher, spans, events))


def uninstall(client: TraceClient | None = None) -> None:
    """Logs no further answers to `client`, or to any client; those that have begun are still logged when they end."""
    root = get_dispatcher()
    for entry in list(_installed):
        known, watcher, spans, events = entry
        if client is not None and known is not client:
            continue
        _installed.remove(entry)

        def leave(spans: SpanListener = spans, events: EventListener = events) -> None:
            root.span_handlers = [handler for handler in root.span_handlers if handler is not spans]
            root.event_handlers = [handler for handler in root.event_handlers if handler is not events]

        watcher.stop(leave)
