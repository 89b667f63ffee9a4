"""The field allow-list: what is not named in it does not leave the process.

A name is a field of `log()` (`query`, `tags`, `source_nodes`), one tag (`tags.tier`), a part of the nodes
(`source_nodes.node_id`, `.text`, `.score`, `.metadata`), one key of their metadata (`source_nodes.metadata.source`), or
`comment` for feedback. Always sent, because nothing works without them: ids of trace and feedback, app, environment,
version, event time, status, a feedback's value, head_probability, truncated, lossy and the SDK's name. A query that is
not allowed is "". Keywords that `log()` does not know are tags, and leave only by their name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from tracejudge_sdk.trace import Feedback, Record, SourceNode, Trace

_FIELDS: Final = (
    "query", "response", "error", "source_nodes", "history", "reference", "expected_ids", "case_id", "latency_ms",
    "model", "prompt_version", "index_version", "category", "session_id", "user_id", "language", "tags", "comment",
)  # fmt: skip
_NODE_PARTS: Final = ("node_id", "text", "score", "metadata")
_NODES: Final = "source_nodes."
_METADATA: Final = "source_nodes.metadata."
_TAGS: Final = "tags."


class AllowedFields:
    """A step over the records that leaves only what is allowed."""

    def __init__(self, names: Collection[str]) -> None:
        """Takes names that `faults_of` finds nothing wrong with."""
        self._names = frozenset(names)
        self._tags = frozenset(name[len(_TAGS) :] for name in names if name.startswith(_TAGS))
        self._metadata = frozenset(name[len(_METADATA) :] for name in names if name.startswith(_METADATA))
        self._parts = frozenset(name[len(_NODES) :] for name in names if name.startswith(_NODES)) & set(_NODE_PARTS)

    def __call__(self, record: Record, note: Callable[[str], None]) -> Record:
        """The record without what is not allowed."""
        if isinstance(record, Feedback):
            return record if "comment" in self._names else record.model_copy(update={"comment": None})
        fields = type(record).model_fields
        update: dict[str, Any] = {
            name: fields[name].get_default(call_default_factory=True)
            for name in _FIELDS
            if name in fields and name not in self._names
        }
        if isinstance(record, Trace) and "query" in update:
            update["query"] = ""
        if "tags" in update and self._tags and record.tags:
            update["tags"] = {key: value for key, value in record.tags.items() if key in self._tags}
        if "source_nodes" in update and (self._parts or self._metadata) and record.source_nodes:
            update["source_nodes"] = tuple(map(self._node, record.source_nodes))
        return record.model_copy(update=update)

    def _node(self, node: SourceNode) -> SourceNode:
        kept: dict[str, Any] = {name: getattr(node, name) for name in self._parts}
        if "metadata" not in kept:
            kept["metadata"] = {key: value for key, value in node.metadata.items() if key in self._metadata}
        return SourceNode.model_construct(**kept)


def faults_of(names: Collection[str]) -> list[str]:
    """What is wrong with the names; nothing where they are all known."""
    return [
        f"allow_fields: {name!r:.80} is no field: choose from {', '.join(_FIELDS)}, tags.KEY, "
        f"{', '.join(_NODES + part for part in _NODE_PARTS)}, {_METADATA}KEY"
        for name in names
        if not isinstance(name, str)
        or not (
            name in _FIELDS
            or (name.startswith(_TAGS) and len(name) > len(_TAGS))
            or name.removeprefix(_NODES) in (_NODE_PARTS if name.startswith(_NODES) else ())
            or (name.startswith(_METADATA) and len(name) > len(_METADATA))
        )
    ]
