"""What `log()` takes from the service's thread: new containers around values that nobody can change.

This is the whole price of a logged trace in the request's own time, so it does nothing that can be done later. By rule:

* texts, numbers, bools, None and instants are immutable: they are taken as they are and looked at later;
* a dict of such values is copied (one level is all there is), and so is the metadata of a node given as a dict;
* everything else (lists and dicts with something inside, objects of a library, sets, arrays) is read at once, into
  plain values, because its owner may go on changing it, and its methods may not be called from another thread.

Sizes are counted here too, as Python holds them in memory: what may wait is bounded in bytes at every instant.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from sys import getsizeof
from typing import Any, Final, NamedTuple

from tracejudge_sdk.fields import first_items, plain_field, response_nodes, size_of
from tracejudge_sdk.nodes import ENTRY_BYTES, MAX_NODES, NODE_BYTES, NodeSnapshot, is_one_node, read_node, size_of_node

_BASE_BYTES: Final = 1500  # what a trace costs in memory beside its texts
_IMMUTABLE: Final = frozenset((str, float, int, bool, type(None), datetime))
"""Types of exactly these names; a subclass may hold anything."""

_new: Final = tuple.__new__  # a named tuple's own constructor takes twice as long

CapturedNode = dict[Any, Any] | NodeSnapshot
"""A node as it was: a copy of a plain dict, to be read later, or what was read at once."""


class Snapshot(NamedTuple):
    """What a call of `log()` handed in, so that nothing the service changes later reaches it."""

    trace_id: str
    time_ms: int
    head_probability: float
    fields: dict[str, Any]
    nodes: list[CapturedNode]
    lossy: bool
    size_bytes: int


def capture(fields: dict[str, Any], trace_id: str, time_ms: int, head_probability: float) -> Snapshot:
    """A snapshot of the keywords of one call (without trace_id), which it takes over. Raises for nothing in them."""
    # This runs in the request's own time, seldom enough to find the processor's caches cold: positional parameters, the
    # usual case in one loop without a call, no names that are not needed.
    items = fields.pop("source_nodes", None)
    lossy = False
    size = _BASE_BYTES
    for value in fields.values():
        kind = type(value)
        if kind is str:
            size += len(value) if value.isascii() else getsizeof(value)
        elif kind not in _IMMUTABLE:
            if items is None:
                items = response_nodes(fields.get("response"))
            lossy = _read_fields(fields)
            size = _BASE_BYTES + sum(map(size_of, fields.values()))
            break
    nodes: list[CapturedNode] = []
    if items is not None:
        if type(items) is not list or len(items) > MAX_NODES:
            items, others_lossy = _listed(items)
            lossy = lossy or others_lossy
        for item in items:
            if type(item) is dict:
                node = item.copy()
                size += NODE_BYTES
                for value in node.values():
                    kind = type(value)
                    if kind is str:
                        size += len(value) if value.isascii() else getsizeof(value)
                    elif kind not in _IMMUTABLE:
                        break
                else:
                    nodes.append(node)
                    continue
                if (held := _bytes_with_metadata(node)) is not None:
                    nodes.append(node)
                    size += held
                    continue
            read, node_lossy = read_node(item)
            lossy = lossy or node_lossy
            nodes.append(read)
            size += size_of_node(read)
    return _new(Snapshot, (trace_id, time_ms, head_probability, fields, nodes, lossy, size))


def capture_nodes(items: Any) -> list[CapturedNode]:
    """The source nodes as they are now, for a trace that is logged later; `log()` takes them again."""
    return capture({"source_nodes": items}, "", 0, 1.0).nodes


def _bytes_if_plain(mapping: dict[Any, Any]) -> int | None:
    """How many bytes the texts among the values hold; None when there is a value that could still change."""
    size = 0
    for value in mapping.values():
        kind = type(value)
        if kind is str:
            size += len(value) if value.isascii() else getsizeof(value)
        elif kind not in _IMMUTABLE:
            return None
    return size


def _bytes_with_metadata(node: dict[Any, Any]) -> int | None:
    """The bytes of a node whose metadata is a plain dict, which it replaces in the node by a copy; None for any other
    node."""
    metadata = node.get("metadata")
    if type(metadata) is not dict:
        return None
    metadata = metadata.copy()
    inner = _bytes_if_plain(metadata)
    node["metadata"] = None
    outer = _bytes_if_plain(node)
    node["metadata"] = metadata
    return None if inner is None or outer is None else inner + outer + ENTRY_BYTES * len(metadata)


def _read_fields(fields: dict[str, Any]) -> bool:
    """Reads the values that could still change, in place; True when something was lost on the way."""
    lossy = False
    for name, value in fields.items():
        if type(value) not in _IMMUTABLE:
            # The keys stay, so the loop may go on.
            fields[name], field_lossy = plain_field(name, value)
            lossy = lossy or field_lossy
    return lossy


def _listed(items: Any) -> tuple[list[Any], bool]:
    """The nodes of whatever was handed in, the first 1000 of them; one node alone is a list of one, and marked."""
    if type(items) is not tuple and is_one_node(items):
        return [items], True
    return first_items(items, most=MAX_NODES)


def read_captured(captured: Iterable[CapturedNode]) -> tuple[list[NodeSnapshot], bool]:
    """The nodes, in the sending thread, and whether something was lost on the way."""
    lossy = False
    nodes: list[NodeSnapshot] = []
    for item in captured:
        if type(item) is dict:
            item, item_lossy = read_node(item)
            lossy = lossy or item_lossy
        nodes.append(item)  # type: ignore[arg-type]  # what is no dict was read already
    return nodes, lossy
