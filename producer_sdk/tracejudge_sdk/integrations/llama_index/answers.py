"""What LlamaIndex hands to the caller, and when it is over.

A result that is whole is logged at once. Of one that streams, the caller gets the very object; only where its pieces
come out of it a generator stands between that hands each on at once and logs when the last has passed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Final

from llama_index.core.chat_engine.types import StreamingAgentChatResponse

from tracejudge_sdk.calls import Pieces
from tracejudge_sdk.recording import TraceRecording
from tracejudge_sdk.streams import (
    async_generator_of,
    generator_of,
    observed_async_generator,
    observed_generator,
)

UNNAMED: Final = "unknown"
"""What LlamaIndex calls a model without a name."""


def hand_on(result: Any, recording: TraceRecording) -> None:
    """Logs the answer, now or when its stream has ended."""
    nodes = getattr(result, "source_nodes", None)
    if nodes:
        recording.source_nodes = list(nodes)
    if isinstance(result, StreamingAgentChatResponse):
        result.__class__ = ObservedChatResponse
        result.__dict__["_tracejudge"] = recording
        return
    stream = getattr(result, "__dict__", {}).get("response_gen")
    if isinstance(stream, GeneratorType):
        result.response_gen = observed_generator(stream, recording, _Joined())
    elif isinstance(stream, AsyncGeneratorType):
        result.response_gen = observed_async_generator(stream, recording, _Joined())
    else:
        recording.finish(response=_text_of(result))


def model_of(engine: Any) -> str | None:
    """The name of the language model an engine or synthesizer holds, where it holds one with a name."""
    for holder in (engine, _attribute(engine, "_response_synthesizer"), _attribute(engine, "_query_engine")):
        model = _attribute(holder, "_llm") or _attribute(_attribute(holder, "_response_synthesizer"), "_llm")
        name = _attribute(model, "model") or _attribute(_attribute(model, "metadata"), "model_name")
        if isinstance(name, str) and name != UNNAMED:
            return name
    return None


class ObservedChatResponse(StreamingAgentChatResponse):
    """A streaming chat response that notices its reader, who takes the pieces by one of its two generators."""

    @property
    def response_gen(self) -> Generator[str, None, None]:
        stream = super().response_gen
        return generator_of(lambda: (stream, self._recording), _Joined())()

    def async_response_gen(self) -> AsyncGenerator[str, None]:
        stream = super().async_response_gen()
        return async_generator_of(lambda: (stream, self._recording), _Joined())()

    @property
    def _recording(self) -> TraceRecording:
        recording: TraceRecording = self.__dict__["_tracejudge"]
        return recording

    def __del__(self) -> None:
        # Nobody read it as a stream: whole where the model had come to its end all the same.
        recording = self.__dict__.get("_tracejudge")
        if recording is not None:
            whole = self.is_done and self.exception is None
            text = (self.response if whole else self.unformatted_response) or None
            recording.finish(self.exception or (None if whole else GeneratorExit()), response=text)


# Shown by its own name wherever it is printed or logged.
ObservedChatResponse.__name__ = StreamingAgentChatResponse.__name__
ObservedChatResponse.__qualname__ = StreamingAgentChatResponse.__qualname__


class _Joined:
    """The rule for LlamaIndex's streams: texts, put together."""

    def collector(self) -> Pieces:
        return Pieces(keep=False)

    def of_stream(self, pieces: Pieces) -> dict[str, Any]:
        return {"response": pieces.text()}


def _text_of(result: Any) -> Any:
    response = getattr(result, "response", result)
    if response is None or isinstance(response, str):
        return response
    return str(result)  # a PydanticResponse: JSON


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of a foreign object may raise anything
        return None
