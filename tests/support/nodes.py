"""Source nodes as they come out of `log()`: captured in the caller's thread, read in the sending one."""

from __future__ import annotations

from typing import Any, NamedTuple

from tracejudge_sdk.capture import capture, read_captured
from tracejudge_sdk.nodes import NodeSnapshot


class Nodes(NamedTuple):
    """The nodes in the order given, about how many bytes they hold, and whether anything was lost."""

    nodes: tuple[NodeSnapshot, ...]
    size_bytes: int
    lossy: bool


def snapshot_nodes(items: Any) -> Nodes:
    """What arrives of `log(source_nodes=items)`."""
    empty = capture({}, "t", 0, 1.0).size_bytes
    snapshot = capture({"source_nodes": items}, "t", 0, 1.0)
    nodes, lossy = read_captured(snapshot.nodes)
    return Nodes(tuple(nodes), snapshot.size_bytes - empty, lossy or snapshot.lossy)
