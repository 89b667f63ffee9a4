"""Source nodes from whatever a service has: dicts, texts, LlamaIndex and LangChain objects, pairs with a score.

The rules, first match wins. They go by shape and never import a foreign library.

1. A text is a node without id.
2. A `SourceNode` is taken as it is.
3. A whole number or a UUID is the id of a node without text; so is an object or dict that has an id and no text.
4. A pair (node, number) is the node with that score, as LangChain's `similarity_search_with_score` returns it.
5. A mapping: id from `node_id`, `id_` or `id`; text from `text`, `page_content` or `content`; `score`; `metadata`. A
   mapping under `node` holds id, text and metadata of the node itself (a LlamaIndex NodeWithScore turned into a dict).
   Other keys join the metadata.
6. An object with `.node` and `.score` (LlamaIndex NodeWithScore) is that node with that score.
7. Any other object: id from `.node_id`, `.id_` or `.id`; text from `.page_content` (LangChain Document), `.text` or
   `.get_content()`; `.score`; `.metadata`.
8. What gives neither id nor text (None included) becomes a node with neither, its repr in the metadata: it counts as
   shown to the generator and is never judged as text.

Scores that are not finite numbers become null. Metadata goes through `json_values.coerce_json`. Whatever was lost or
changed its type makes the trace `lossy`.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping
from sys import getsizeof
from typing import Any, Final, NamedTuple

from tracejudge_sdk.json_values import coerce_json, safe_repr
from tracejudge_sdk.trace import SourceNode

MAX_NODES: Final = 1000
"""Nodes of one trace; an iterator without end must not hold up the service."""

NODE_BYTES: Final = 400  # what a node costs in memory beside its texts
ENTRY_BYTES: Final = 150  # an entry of its metadata
_PLAIN_VALUES: Final = (str, int, bool, type(None))
_ID_NAMES: Final = ("node_id", "id_", "id")
_MAPPING_TEXT_NAMES: Final = ("text", "page_content", "content")
_WIRE_NAMES: Final = frozenset(("node_id", "text", "score", "metadata"))
_OWN_NAMES: Final = frozenset((*_ID_NAMES, *_MAPPING_TEXT_NAMES, "score", "metadata", "node"))


class NodeSnapshot(NamedTuple):
    """A node as it was when it was logged; nothing the service changes later reaches it."""

    node_id: str
    text: str | None
    score: float | None
    metadata: dict[str, Any]


def is_one_node(items: Any) -> bool:
    """Whether this is a node without the list around it."""
    # A pydantic model, such as LlamaIndex's nodes are, can be iterated over: its fields would come.
    if isinstance(items, (str, Mapping)) or not isinstance(items, Iterable):
        return True
    return any(hasattr(items, name) for name in ("node", "text", "page_content", "model_fields"))


def is_plain_node(item: dict[Any, Any]) -> bool:
    """Whether it has the form of the wire contract with short plain metadata, so that rule 5 has nothing to do."""
    text, node_id, score, metadata = item.get("text"), item.get("node_id"), item.get("score"), item.get("metadata")
    if (
        type(text) is not str
        or type(node_id) is not str
        or not (score is None or (type(score) is float and math.isfinite(score)))
        or not (metadata is None or type(metadata) is dict)
        or not _WIRE_NAMES.issuperset(item)
    ):
        return False
    for key, value in (metadata or {}).items():
        kind = type(value)
        plain = kind is int or kind is bool or value is None or (kind is str and len(value) < ENTRY_BYTES)
        if not plain or type(key) is not str:
            return False
    return True


def _quick(item: dict[Any, Any]) -> NodeSnapshot | None:
    """Rule 5 for a plain node, in a fifth of the time; None for the rest."""
    if not is_plain_node(item):
        return None
    return NodeSnapshot(item["node_id"], item["text"], item.get("score"), dict(item.get("metadata") or {}))


def _quick_llama_index(item: Any) -> tuple[NodeSnapshot, bool] | None:
    """Rule 6 for LlamaIndex's NodeWithScore of a TextNode, in a fifth of the time; None for the rest.

    Its classes look up each attribute that is not there along a long way, and the rule asks for several.
    """
    held = vars(item)
    inner = vars(held["node"]) if "node" in held and "score" in held else {}
    node_id, text, score = inner.get("id_"), inner.get("text"), held.get("score")
    if type(node_id) is not str or type(text) is not str:
        return None
    if not (score is None or (type(score) is float and math.isfinite(score))):
        return None
    metadata, lossy = _metadata(inner.get("metadata"))
    return NodeSnapshot(node_id, text, score, metadata), lossy


def read_node(item: Any) -> tuple[NodeSnapshot, bool]:
    """The node by the rules above, and whether something was lost on the way. Never raises: see rule 8."""
    try:
        if type(item) is NodeSnapshot:
            return item, False
        if type(item) is dict and (quick := _quick(item)) is not None:
            return quick, False
        if type(item).__module__.startswith("llama_index."):
            quick_read = _quick_llama_index(item)
            if quick_read is not None:
                return quick_read
        return _read(item)
    except Exception:  # noqa: BLE001 - foreign attributes may raise anything; the trace must survive it
        return _unknown(item)


def _read(item: Any) -> tuple[NodeSnapshot, bool]:
    if isinstance(item, str):
        return NodeSnapshot("", str.__str__(item), None, {}), False
    if isinstance(item, SourceNode):
        return NodeSnapshot(item.node_id, item.text, item.score, dict(item.metadata)), False
    if isinstance(item, (int, uuid.UUID)) and not isinstance(item, bool):
        return NodeSnapshot(str(item), None, None, {}), False
    if isinstance(item, tuple) and len(item) == 2 and _is_number(item[1]):
        node, lossy = _read(item[0])
        score, score_lossy = _score(item[1])
        return node._replace(score=score), lossy or score_lossy
    if isinstance(item, Mapping):
        return _from_mapping(item)
    inner = getattr(item, "node", None)
    if inner is None or not hasattr(item, "score"):
        inner = item
    return _from_object(inner, getattr(item, "score", None))


def _from_mapping(item: Mapping[Any, Any]) -> tuple[NodeSnapshot, bool]:
    inner = item.get("node")
    if not isinstance(inner, Mapping):
        inner = item
    node_id, id_lossy = _id(next((inner[name] for name in _ID_NAMES if inner.get(name) is not None), ""))
    text, text_lossy = _text(next((inner[name] for name in _MAPPING_TEXT_NAMES if inner.get(name) is not None), None))
    score, score_lossy = _score(item.get("score"))
    metadata, metadata_lossy = _metadata(inner.get("metadata"))
    if inner is item and not _OWN_NAMES.issuperset(item):
        others, others_lossy = _metadata({key: value for key, value in item.items() if key not in _OWN_NAMES})
        metadata, metadata_lossy = {**others, **metadata}, metadata_lossy or others_lossy
    lossy = id_lossy or text_lossy or score_lossy or metadata_lossy
    return NodeSnapshot(node_id, text, score, metadata), lossy


def _from_object(item: Any, score: Any) -> tuple[NodeSnapshot, bool]:
    node_id, id_lossy = _id(_first_attribute(item, _ID_NAMES, ""))
    found = _first_attribute(item, ("page_content", "text"), None)
    if found is None and callable(get_content := getattr(item, "get_content", None)):
        found = get_content() or None  # of an image node it is ''
    if found is None and not node_id:
        return _unknown(item)
    text, text_lossy = _text(found)
    number, score_lossy = _score(score)
    metadata, metadata_lossy = _metadata(getattr(item, "metadata", None))
    return NodeSnapshot(node_id, text, number, metadata), id_lossy or text_lossy or score_lossy or metadata_lossy


def _unknown(item: Any) -> tuple[NodeSnapshot, bool]:
    return NodeSnapshot("", None, None, {"object": safe_repr(item)}), True


def _first_attribute(item: Any, names: tuple[str, ...], default: Any) -> Any:
    for name in names:
        if (value := getattr(item, name, None)) is not None:
            return value
    return default


def _id(value: Any) -> tuple[str, bool]:
    if isinstance(value, str):
        return str.__str__(value), False
    plain, _ = coerce_json(value)
    return (plain if isinstance(plain, str) else str(plain)), not isinstance(value, (int, uuid.UUID))


def _text(value: Any) -> tuple[str | None, bool]:
    if value is None:
        return None, False
    if isinstance(value, str):
        return str.__str__(value), False
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace"), True
    # Judged as text it would be a guess: kept out.
    return None, True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or type(value).__module__.partition(".")[0] == "numpy"


def _score(value: Any) -> tuple[float | None, bool]:
    if value is None:
        return None, False
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - __float__ may raise anything
        return None, True
    if not math.isfinite(number):
        return None, True
    return number, not isinstance(value, (int, float)) or isinstance(value, bool)


def _metadata(value: Any) -> tuple[dict[str, Any], bool]:
    if not value and (value is None or isinstance(value, Mapping)):
        return {}, False
    if type(value) is dict:
        # The common case, without the general coercion: text keys and plain values, which no one can change later.
        for key, item in value.items():
            kind = type(item)
            if type(key) is not str or not (kind in _PLAIN_VALUES or (kind is float and math.isfinite(item))):
                break
        else:
            return dict(value), False
    plain, lossy = coerce_json(value)
    return (plain, lossy) if isinstance(plain, dict) else ({"metadata": plain}, True)


def size_of_node(node: NodeSnapshot) -> int:
    """About how many bytes it holds in memory."""
    size = NODE_BYTES + getsizeof(node.node_id)
    if node.text is not None:
        size += getsizeof(node.text)
    if node.metadata:
        size += sum(_value_size(item) for item in node.metadata.values())
    return size


def _value_size(value: Any) -> int:
    if isinstance(value, str):
        return ENTRY_BYTES + getsizeof(value)
    if isinstance(value, dict):
        return ENTRY_BYTES + sum(_value_size(item) for item in value.values())
    if isinstance(value, list):
        return ENTRY_BYTES + sum(_value_size(item) for item in value)
    return ENTRY_BYTES
