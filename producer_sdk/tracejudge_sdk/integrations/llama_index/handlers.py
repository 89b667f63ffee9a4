"""The two listeners that LlamaIndex's dispatcher calls; what they hear goes to one `Watcher`.

The dispatcher swallows whatever a listener raises, so a fault here never reaches the service.
"""

from __future__ import annotations

import inspect
from typing import Any

from llama_index.core.instrumentation.events.llm import LLMChatStartEvent, LLMCompletionStartEvent
from llama_index_instrumentation.base.event import BaseEvent
from llama_index_instrumentation.event_handlers.base import BaseEventHandler
from llama_index_instrumentation.span.base import BaseSpan
from llama_index_instrumentation.span_handlers.base import BaseSpanHandler
from pydantic import PrivateAttr

from tracejudge_sdk.integrations.llama_index.watcher import Watcher


class SpanListener(BaseSpanHandler[BaseSpan]):
    """Hears where calls begin and end. Keeps no spans of its own."""

    _watcher: Watcher = PrivateAttr()

    @classmethod
    def of(cls, watcher: Watcher) -> SpanListener:
        listener = cls()
        listener._watcher = watcher
        return listener

    @classmethod
    def class_name(cls) -> str:
        return "TraceJudgeSpanListener"

    def span_enter(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if instance is not None:
            self._watcher.entered(id_, instance, bound_args.arguments, tags or {})

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        result: Any | None = None,
        **kwargs: Any,
    ) -> None:
        self._watcher.exited(id_, result)

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        self._watcher.dropped(id_, err)

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        return None

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        return None

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        return None


class EventListener(BaseEventHandler):
    """Hears which model is called, with which messages."""

    _watcher: Watcher = PrivateAttr()

    @classmethod
    def of(cls, watcher: Watcher) -> EventListener:
        listener = cls()
        listener._watcher = watcher
        return listener

    @classmethod
    def class_name(cls) -> str:
        return "TraceJudgeEventListener"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        # One look at the type: there is an event for each piece of each stream.
        if isinstance(event, LLMChatStartEvent):
            self._watcher.model_called(event.model_dict, event.messages)
        elif isinstance(event, LLMCompletionStartEvent):
            self._watcher.model_called(event.model_dict, None)
