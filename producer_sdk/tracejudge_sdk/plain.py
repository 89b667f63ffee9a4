"""The usual trace straight to bytes, where orjson is there (`tracejudge[fast]`): the sending thread's shortest way.

Most calls of `log()` hand in texts and numbers that fit the contract as they are. For these the record need not be
built and validated: what would be checked is checked here by type, and the rest goes the long way (`building`), so that
both give the same record. Where steps are to see the record, it is always built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, Final

from tracejudge_sdk._version import SDK_NAME
from tracejudge_sdk.capture import CapturedNode, Snapshot
from tracejudge_sdk.fields import FIELD_NAMES, NAMES, TEXT_FIELDS
from tracejudge_sdk.nodes import is_plain_node, read_node
from tracejudge_sdk.trace import MAX_NAME_CHARS, SCHEMA_VERSION

_TEXTS: Final = TEXT_FIELDS | {"case_id"}
# Read into texts at once by the snapshot, where they are no plain value.
_READ: Final = {"tags": dict, "history": list, "expected_ids": list}
_STATUSES: Final = frozenset(("ok", "error", "incomplete"))
_CONSTANT: Final = {"schema_version": SCHEMA_VERSION, "kind": "trace"}


def plain_encoder(defaults: Mapping[str, str]) -> Callable[[Snapshot], tuple[bytes, bool] | None] | None:
    """A function that gives the bytes of a snapshot and whether it is lossy, or None for what has to be built.

    None without orjson. `defaults` hold app, environment and version.
    """
    try:
        import orjson
    except ImportError:
        return None
    beginning = {**_CONSTANT, **defaults}
    end = {"sdk": SDK_NAME}

    def encode(snapshot: Snapshot) -> tuple[bytes, bool] | None:
        fields = snapshot.fields
        if type(fields.get("query")) is not str:
            return None
        for name, value in fields.items():
            if name not in FIELD_NAMES if value is None else not _fits(name, value):
                return None
        nodes, nodes_lossy = _nodes(snapshot.nodes)
        lossy = snapshot.lossy or nodes_lossy
        record = {
            **beginning,
            **{name: value for name, value in fields.items() if value is not None},
            "trace_id": snapshot.trace_id,
            "event_time": datetime.fromtimestamp(snapshot.time_ms / 1000, timezone.utc),
            "head_probability": snapshot.head_probability,
            "lossy": lossy,
            "source_nodes": nodes,
            **end,
        }
        try:
            return orjson.dumps(record, option=orjson.OPT_UTC_Z), lossy
        except TypeError:  # a lone surrogate, a number of more than 64 bits
            return None

    return encode


def _fits(name: str, value: Any) -> bool:
    kind = type(value)
    if name in _TEXTS:
        return kind is str
    if name in NAMES:
        return kind is str and (name == "version" or bool(value)) and len(value) <= MAX_NAME_CHARS
    if name == "status":
        return kind is str and value in _STATUSES
    if name == "latency_ms":
        return (kind is float or kind is int) and 0 <= value < math.inf
    return name in _READ and kind is _READ[name]


def _nodes(captured: list[CapturedNode]) -> tuple[list[dict[str, Any]], bool]:
    nodes: list[dict[str, Any]] = []
    lossy = False
    for item in captured:
        if type(item) is dict and is_plain_node(item):
            if item.get("metadata", _CONSTANT) is None:
                del item["metadata"]
            nodes.append(item)
        else:
            node, node_lossy = read_node(item)
            lossy = lossy or node_lossy
            nodes.append(node._asdict())
    return nodes, lossy
