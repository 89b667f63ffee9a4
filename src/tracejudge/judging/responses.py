"""A stored trace as LlamaIndex's Response, whose nodes are built only on demand.

A TextNode costs more than everything else that a built-in judge does beside its call. Our own evaluators read the
trace's texts directly; only third-party evaluators ask for nodes.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Final

from llama_index.core.base.response.schema import Response
from llama_index.core.schema import NodeWithScore, TextNode

from tracejudge.judging.tasks import content_hash
from tracejudge_sdk.trace import Trace

TRACE: Final = "tracejudge_trace"
"""Key of the Response's metadata that holds the Trace it was rebuilt from."""


class TraceResponse(Response):
    """The Response of a trace. `background`: live traffic goes before it; `fresh`: no verdict of the cache will do."""

    def __init__(self, trace: Trace, *, background: bool = False, fresh: bool = False) -> None:
        # Not Response's own __init__: it would set source_nodes.
        self.response = trace.response
        self.metadata = {TRACE: trace, "trace_id": trace.trace_id}
        self.trace = trace
        self.background = background
        self.fresh = fresh
        self._nodes: list[NodeWithScore] | None = None
        self._digest = ""

    def another(self) -> TraceResponse:
        """An equal response for somebody who may change what he is given: all judges of a trace share one."""
        return TraceResponse(self.trace, background=self.background, fresh=self.fresh)

    @property
    def digest(self) -> str:
        """Hash of everything that a judge of ours reads."""
        # Asked for every trace: before Python 3.12 a cached_property takes a lock each time.
        if not self._digest:
            self._digest = content_hash(self.trace)
        return self._digest

    @cached_property
    def whole_digest(self) -> str:
        """Hash of everything that any evaluator can see of the response, the nodes' metadata and scores included."""
        nodes = [[node.node_id, node.score, node.metadata] for node in self.trace.source_nodes]
        seen = json.dumps(nodes, ensure_ascii=True, default=str, sort_keys=True)
        return hashlib.blake2b(f"{self.digest}{seen}".encode(), digest_size=16).hexdigest()

    @property
    def texts(self) -> list[str]:
        """The passages' texts in order, "" for a node without one: what `get_content` of each node would give."""
        return [node.text or "" for node in self.trace.source_nodes]

    @property
    def source_nodes(self) -> list[NodeWithScore]:
        if self._nodes is None:
            self._nodes = [
                NodeWithScore(
                    node=TextNode(
                        id_=node.node_id or f"{self.trace.trace_id}#{place}",
                        text=node.text or "",
                        metadata=dict(node.metadata),
                    ),
                    score=node.score,
                )
                for place, node in enumerate(self.trace.source_nodes)
            ]
        return self._nodes

    @source_nodes.setter
    def source_nodes(self, nodes: list[NodeWithScore]) -> None:
        self._nodes = nodes
