"""Every text of a record, by the name of the field it stands in: what privacy looks at.

| field | what |
|---|---|
| query, response, error, reference, comment | the text |
| history, history.role | of every earlier turn |
| source_nodes.text | of every node |
| source_nodes.metadata.KEY | every text in the metadata under that key, however deep, keys included |
| tags.KEY | the tag's value; keys as `tags` |
| model, prompt_version, index_version, category, language | names that the service gives |
| source_nodes.node_id, expected_ids, case_id, session_id, user_id | ids |

Not among them: trace_id and feedback_id, by which everything else is found, and app, environment and version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from tracejudge_sdk.trace import Feedback, Record, SourceNode, Turn

Kind = Literal["text", "key", "name", "id"]
Change = Callable[[str, str, Kind], str]
"""Gets the text, the name of its field and the kind of text; gives what is to stand there."""

_TEXTS: Final = ("query", "response", "error", "reference")
NAME_FIELDS: Final = ("model", "prompt_version", "index_version", "category", "language")
_IDS: Final = ("case_id", "session_id", "user_id")
ID_FIELDS: Final = frozenset((*_IDS, "source_nodes.node_id", "expected_ids"))


def change_texts(record: Record, change: Change) -> Record:
    """The record with each of its texts changed; the record itself where nothing was."""
    if isinstance(record, Feedback):
        comment = record.comment
        changed = None if comment is None else change(comment, "comment", "text")
        return record if changed == comment else record.model_copy(update={"comment": changed})
    update: dict[str, Any] = {}
    kinds: tuple[tuple[tuple[str, ...], Kind], ...] = ((_TEXTS, "text"), (NAME_FIELDS, "name"), (_IDS, "id"))
    for names, kind in kinds:
        for name in names:
            value = getattr(record, name)
            if value is not None and (new := change(value, name, kind)) != value:
                update[name] = new
    if record.expected_ids:
        update["expected_ids"] = tuple(change(value, "expected_ids", "id") for value in record.expected_ids)
    if record.history:
        update["history"] = tuple(
            Turn.model_construct(
                role=change(turn.role, "history.role", "name"), content=change(turn.content, "history", "text")
            )
            for turn in record.history
        )
    if record.tags:
        update["tags"] = _unique(
            (change(key, "tags", "key"), change(value, f"tags.{key}", "text")) for key, value in record.tags.items()
        )
    if record.source_nodes:
        update["source_nodes"] = tuple(_changed_node(node, change) for node in record.source_nodes)
    return record.model_copy(update=update) if update else record


def _changed_node(node: SourceNode, change: Change) -> SourceNode:
    return SourceNode.model_construct(
        node_id=change(node.node_id, "source_nodes.node_id", "id") if node.node_id else "",
        text=None if node.text is None else change(node.text, "source_nodes.text", "text"),
        score=node.score,
        metadata=_unique(
            (
                change(key, "source_nodes.metadata", "key"),
                _changed_value(value, f"source_nodes.metadata.{key}", change),
            )
            for key, value in node.metadata.items()
        ),
    )


def _changed_value(value: Any, field: str, change: Change) -> Any:
    if isinstance(value, str):
        return change(value, field, "text")
    if isinstance(value, Mapping):
        return _unique((change(key, field, "key"), _changed_value(item, field, change)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return [_changed_value(item, field, change) for item in value]
    return value


def _unique(items: Any) -> dict[str, Any]:
    """A dict of the pairs; keys that have become the same are numbered, so that nothing is lost by it."""
    found: dict[str, Any] = {}
    for key, value in items:
        name, number = key, 2
        while name in found:
            name, number = f"{key} ({number})", number + 1
        found[name] = value
    return found
