"""Lengths and keyed hashes in place of texts: what `capture_text=False` sends.

Query, response, error, reference, the turns of the history and the texts of nodes are gone from the record (a judge
never takes a hash for an answer); their length in characters and their hash stand in tags (`query_chars`, `query_hash`)
and in the metadata of nodes (`text_chars`, `text_hash`). Other texts (values of tags, texts in metadata, a comment)
become `hmac-sha256:HASH:CHARS`, so that equal ones are still equal; single tags and metadata keys that are named in
`allow_fields` (`tags.tier`) are labels and stay. Numbers stay; so do ids and the service's own names (model, category,
...), as far as the redaction hooks let them.

The hash is HMAC-SHA-256, its first 128 bits in hex. Keyed, because the hash of a short text can be guessed by hashing
all likely ones. Without a key of the service's own, a random one is made with each client: hashes are then comparable
within one process and its forks only.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable, Collection
from typing import Any, Final

from tracejudge_sdk.record_texts import Kind, change_texts
from tracejudge_sdk.trace import Feedback, Record, Trace, TracePart

_PREFIX: Final = "hmac-sha256"
_TEXTS: Final = ("query", "response", "error", "reference")
_ROLES: Final = frozenset(
    ("user", "assistant", "system", "developer", "tool", "function", "human", "ai", "model", "chatbot")
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")
"""A key that is a name in somebody's code; another may be anything."""


class Digester:
    """Hashes texts under one key."""

    def __init__(self, key: str | None = None) -> None:
        self._key = os.urandom(32) if key is None else key.encode("utf-8", "surrogatepass")

    def hash(self, text: str) -> str:
        """32 hex digits."""
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:32]

    def pseudonym(self, text: str) -> str:
        """What stands for an id that must not be seen."""
        return f"id-{self.hash(text)}"

    def __repr__(self) -> str:
        return "Digester(key=...)"


class DigestsOnly:
    """A step over the records that leaves no text in them."""

    def __init__(self, digester: Digester, *, labels: Collection[str] = ()) -> None:
        """`labels`: fields such as tags.tier and source_nodes.metadata.source that stay as they are."""
        self._digester = digester
        self._labels = frozenset(labels)

    def __call__(self, record: Record, note: Callable[[str], None]) -> Record:
        """The record without its texts."""
        if isinstance(record, Feedback):
            return change_texts(record, self._short)
        changed = change_texts(self._emptied(record), self._short)
        if isinstance(changed, Feedback):
            return changed
        digests = self._digests(record)
        nodes = changed.source_nodes and tuple(
            node
            if before.text is None
            else node.model_copy(update={"metadata": {**node.metadata, **self._of("text", before.text)}})
            for node, before in zip(changed.source_nodes, record.source_nodes or (), strict=True)
        )
        update: dict[str, Any] = {"source_nodes": nodes}
        if digests:
            update["tags"] = {**(changed.tags or {}), **{name: str(value) for name, value in digests.items()}}
        return changed.model_copy(update=update)

    def _digests(self, record: Trace | TracePart) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in _TEXTS:
            if (text := getattr(record, name)) is not None:
                found.update(self._of(name, text))
        if record.history:
            # With their lengths, so that turns cut elsewhere are other turns.
            contents = "".join(f"{len(turn.content)}:{turn.content}" for turn in record.history)
            found["history_chars"] = sum(len(turn.content) for turn in record.history)
            found["history_hash"] = self._digester.hash(contents)
        return found

    def _of(self, name: str, text: str) -> dict[str, Any]:
        return {f"{name}_chars": len(text), f"{name}_hash": self._digester.hash(text)}

    def _emptied(self, record: Trace | TracePart) -> Trace | TracePart:
        update: dict[str, Any] = {name: None for name in _TEXTS if getattr(record, name) is not None}
        if isinstance(record, Trace):
            update["query"] = ""
        if record.history:
            update["history"] = tuple(turn.model_copy(update={"content": ""}) for turn in record.history)
        if record.source_nodes:
            update["source_nodes"] = tuple(node.model_copy(update={"text": None}) for node in record.source_nodes)
        return record.model_copy(update=update)

    def _short(self, text: str, field: str, kind: Kind) -> str:
        if kind == "id" or not text or field in self._labels:
            return text
        if field == "history.role":
            return text if text in _ROLES else self._digest(text)
        if kind == "name":
            return text
        if kind == "key":
            return text if _NAME.match(text) else self._digest(text)
        return self._digest(text)

    def _digest(self, text: str) -> str:
        return f"{_PREFIX}:{self._digester.hash(text)}:{len(text)}"
