"""What the call of a function says about the answer it gives: the rules of `@observe`.

**Query.** `query=` names an argument, with a path into it where needed (`"request.question"`), or is called with the
arguments as a mapping. Without it: the first argument named query, question, message, prompt, query_str, user_input,
input, text or q; else the first text among the arguments.

**Response** and **source nodes.** `response=` and `source_nodes=` are paths into the result (keys or attributes), or
are called with it. Without them a result is read so, first match wins:

1. A mapping, or an object with these attributes: the answer is under response, answer, output, result, text or content,
   the nodes under source_nodes, sources, source_documents, documents, contexts, context or nodes.
2. A pair (answer, nodes) whose second is a list or tuple and whose first is a text or an object with an answer in it.
3. Anything else is the answer itself, read as `log()` reads a response.

A stream's answer is the text of its pieces put together: texts, bytes (UTF-8), or what a piece has under delta,
content, text, response or token. A `response=` or `source_nodes=` that can be called gets the list of the pieces
instead; a path is looked for in the pieces, and the last that has it wins.

Every other field given to `@observe` is a fixed value, or is called with the arguments. What the code inside said
through `current_trace()` goes before all of these. A rule that fails leaves its field out, and is warned of once.
"""

from __future__ import annotations

import codecs
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tracejudge_sdk.notices import warn

Pick = str | Callable[[Any], Any]
"""A path (names joined by dots) or a function of the arguments or of the result."""

MOST_PIECES: Final = 100_000
MOST_CHARS: Final = 2_000_000
"""What is kept of a stream; more would be cut anyway, since a record holds less than a megabyte."""

_QUERY_NAMES: Final = ("query", "question", "message", "prompt", "query_str", "user_input", "input", "text", "q")
_RESPONSE_NAMES: Final = ("response", "answer", "output", "result", "text", "content")
_NODE_NAMES: Final = ("source_nodes", "sources", "source_documents", "documents", "contexts", "context", "nodes")
_PIECE_NAMES: Final = ("delta", "content", "text", "response", "token")


@dataclass(frozen=True, kw_only=True)
class CallRules:
    """How the calls of one function are read."""

    name: str
    signature: inspect.Signature | None
    query: Pick | None
    response: Pick | None
    source_nodes: Pick | None
    fields: Mapping[str, Any]

    def of_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The fields known when the function is called. Never raises."""
        arguments = self._arguments(args, kwargs)
        found: dict[str, Any] = {}
        for name, value in self.fields.items():
            found[name] = self._try(name, value, arguments) if callable(value) else value
        found["query"] = self._try("query", read_query if self.query is None else self.query, arguments)
        return found

    def of_result(self, result: Any) -> dict[str, Any]:
        """The response and source nodes in what the function gave back. Never raises."""
        read = None if self.response and self.source_nodes else self._try("response", read_result, result)
        response, nodes = read or (None, None)
        if self.response is not None:
            response = self._try("response", self.response, result)
        if self.source_nodes is not None:
            nodes = self._try("source_nodes", self.source_nodes, result)
        return {"response": response, "source_nodes": nodes}

    def of_stream(self, pieces: Pieces) -> dict[str, Any]:
        """The response and source nodes in the pieces of a stream, as many as there were. Never raises."""
        found: dict[str, Any] = {"response": pieces.text()}
        for name, pick in (("response", self.response), ("source_nodes", self.source_nodes)):
            if callable(pick):
                found[name] = self._try(name, pick, pieces.kept)
            elif pick is not None:
                picked = (self._try(name, pick, piece) for piece in reversed(pieces.kept))
                found[name] = next((value for value in picked if value is not None), None)
        return found

    def collector(self) -> Pieces:
        """For one stream: it keeps the pieces themselves only where a rule asks for them."""
        return Pieces(keep=self.response is not None or self.source_nodes is not None)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        if self.signature is not None:
            try:
                bound = self.signature.bind(*args, **kwargs)
            except TypeError:
                return kwargs  # the call itself will say so
            bound.apply_defaults()
            return bound.arguments
        return {**{str(position): value for position, value in enumerate(args)}, **kwargs}

    def _try(self, field: str, pick: Pick, source: Any) -> Any:
        try:
            return pick(source) if callable(pick) else _at(source, pick)
        except Exception as error:  # noqa: BLE001 - a rule of the service's own may raise anything
            key = f"{self.name}.{field}"
            if key not in _warned and len(_warned) < _MOST_WARNINGS:
                _warned.add(key)
                # The kind of error only: its words may hold somebody's text.
                warn("tracejudge: observe(%s=...) of %s failed: %s", field, self.name, type(error).__name__)
            return None


class Pieces:
    """The pieces of a stream as they pass by."""

    def __init__(self, *, keep: bool) -> None:
        self.kept: list[Any] = []
        self._keep = keep
        self._texts: list[str] = []
        self._chars = 0
        self._decoder: codecs.IncrementalDecoder | None = None

    def add(self, piece: Any) -> None:
        """Takes one. Never raises."""
        if self._keep and len(self.kept) < MOST_PIECES:
            self.kept.append(piece)
        if self._chars > MOST_CHARS:
            return
        try:
            text = piece if type(piece) is str else self._text_of(piece)
        except Exception:  # noqa: BLE001 - even the class of a foreign object may be a property that raises
            return
        if text:
            self._texts.append(text)
            self._chars += len(text)

    def text(self) -> str | None:
        """The pieces put together; None where no piece held a text."""
        return "".join(self._texts) if self._texts else None

    def _text_of(self, piece: Any) -> str | None:
        if isinstance(piece, str):
            return str.__str__(piece)
        if isinstance(piece, (bytes, bytearray)):
            if self._decoder is None:
                self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
            return self._decoder.decode(bytes(piece))
        for name in _PIECE_NAMES:
            value = _get(piece, name)
            if isinstance(value, str):
                return str.__str__(value)
        return None


_warned: Final[set[str]] = set()
_MOST_WARNINGS: Final = 20


def read_query(arguments: Mapping[str, Any]) -> Any:
    """The query among the arguments of a call, or the entries of a chain's input, by the rule above."""
    for name in _QUERY_NAMES:
        if arguments.get(name) is not None:
            return arguments[name]
    values = list(arguments.values())
    return next((value for value in values if isinstance(value, str)), None)


def read_result(result: Any) -> tuple[Any, Any]:
    """Response and source nodes of a result, by the rule above."""
    if result is None or isinstance(result, (str, bytes, bytearray)):
        return result, None
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], (list, tuple)):
        answer = result[0]
        return (answer if isinstance(answer, str) else first_of(answer, _RESPONSE_NAMES, default=answer)), result[1]
    nodes = first_of(result, _NODE_NAMES)
    if isinstance(result, Mapping):
        return first_of(result, _RESPONSE_NAMES, default=result if nodes is None else None), nodes
    response = first_of(result, _RESPONSE_NAMES)
    return (response if isinstance(response, str) else result), nodes


def first_of(value: Any, names: Sequence[str], *, default: Any = None) -> Any:
    """What a mapping or object has under the first of the names under which it has anything."""
    for name in names:
        if (found := _get(value, name)) is not None:
            return found
    return default


def _get(value: Any, name: str) -> Any:
    try:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of a foreign object may raise anything
        return None
    return None if callable(found) and not isinstance(value, Mapping) else found


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        if value is None:
            return None
        value = _get(value, name)
    return value
