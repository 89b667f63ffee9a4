"""A LlamaIndex language model and a retriever that say what a test told them, without a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.base.response.schema import Response
from llama_index.core.llms import ChatMessage, CustomLLM, MessageRole, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import PrivateAttr

__all__ = ["ChatMessage", "KeywordRetriever", "MessageRole", "MockLLM", "Response", "ScriptedLLM", "nodes_about"]

Script = Callable[[str], Sequence[str]]


class ScriptedLLM(CustomLLM):
    """Answers a prompt with the pieces that `script(prompt)` gives, one by one where it is asked to stream.

    Raises what the script raises; a piece that is an exception is raised in its place. `handed_out` counts the pieces
    that left a stream so far.
    """

    model: str = "scripted-1"
    _script: Script = PrivateAttr()
    _handed_out: list[str] = PrivateAttr(default_factory=list)

    def __init__(self, script: Script, *, model: str = "scripted-1") -> None:
        super().__init__()
        self.model = model
        self._script = script

    @property
    def handed_out(self) -> list[str]:
        return self._handed_out

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.model, context_window=100_000)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="".join(_checked(piece) for piece in self._script(prompt)))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        def pieces() -> CompletionResponseGen:
            text = ""
            for piece in self._script(prompt):
                text += _checked(piece)
                self._handed_out.append(piece)
                yield CompletionResponse(text=text, delta=piece)

        return pieces()


def _checked(piece: Any) -> str:
    if isinstance(piece, Exception):
        raise piece
    return str(piece)


class KeywordRetriever(BaseRetriever):
    """Finds the two passages about each known word of the query, in the order of the words."""

    def __init__(self, words: Sequence[str] = ("paris", "rome", "oslo")) -> None:
        self._words = words
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query = query_bundle.query_str.lower()
        return [node for word in self._words if word in query for node in nodes_about(word)]


def nodes_about(word: str) -> list[NodeWithScore]:
    """What the retriever gives for the word."""
    return [
        NodeWithScore(node=TextNode(id_=f"{word}-{number}", text=f"Passage {number} on {word}."), score=1 / number)
        for number in (1, 2)
    ]
