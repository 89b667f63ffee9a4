"""Traces on their way into `traces`, a column at a time: what the consumer does all day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tracejudge.store.blocks import Block, check_reals, instants_us
from tracejudge.store.rows import StoredTrace
from tracejudge.store.values import to_json
from tracejudge_sdk.trace import SourceNode, Trace, Turn

_LATEST_MS: Final = 1 << 43  # the year 2248


def trace_version(*, complete: bool, ingested_ms: int) -> int:
    """complete << 62 | (2**43 - ingested_at in ms): a complete trace beats an incomplete one, then the first."""
    return complete << 62 | (_LATEST_MS - ingested_ms)


def trace_block(values: Sequence[StoredTrace]) -> Block:
    """The columns of `traces`. Raises IrregularRows where a cell needs a closer look."""
    block = Block()
    traces = [one.trace for one in values]
    nodes = [trace.source_nodes for trace in traces]
    turns = [trace.history for trace in traces]
    block.texts("environment", [trace.environment for trace in traces])
    block.texts("app", [trace.app for trace in traces])
    block.add("event_time", [us // 1000 for us in instants_us([trace.event_time for trace in traces])])
    block.texts("trace_id", [trace.trace_id for trace in traces])
    block.texts("version", [trace.version for trace in traces])
    block.texts("query", [trace.query for trace in traces])
    block.optional_texts("response", [trace.response for trace in traces])
    block.texts("status", [trace.status for trace in traces])
    block.optional_texts("error", [trace.error for trace in traces])
    _add_nodes(block, nodes)
    block.text_lists("history_roles", [[turn.role for turn in some] for some in turns])
    block.text_lists("history_contents", [[turn.content for turn in some] for some in turns])
    block.optional_texts("reference", [trace.reference for trace in traces])
    block.text_lists("expected_ids", [trace.expected_ids for trace in traces])
    block.optional_texts("case_id", [trace.case_id for trace in traces])
    block.optional_reals("latency_ms", [trace.latency_ms for trace in traces])
    block.optional_texts("model", [trace.model for trace in traces])
    block.optional_texts("prompt_version", [trace.prompt_version for trace in traces])
    block.optional_texts("index_version", [trace.index_version for trace in traces])
    block.optional_texts("category", [trace.category for trace in traces])
    block.optional_texts("session_id", [trace.session_id for trace in traces])
    block.optional_texts("user_id", [trace.user_id for trace in traces])
    block.optional_texts("language", [trace.language for trace in traces])
    block.text_maps("tags", [trace.tags for trace in traces])
    block.flags("truncated", [trace.truncated for trace in traces])
    block.flags("lossy", [trace.lossy for trace in traces])
    block.reals("head_probability", [trace.head_probability for trace in traces])
    block.texts("sdk", [trace.sdk for trace in traces])
    block.texts("signals", [to_json("signals", one.signals) for one in values])
    ingested_ms = [us // 1000 for us in instants_us([one.ingested_at for one in values])]
    block.add("ingested_at", ingested_ms)
    block.texts("source", [one.source for one in values])
    block.wholes("partition", [one.partition for one in values], low=-1, high=2**31 - 1)
    block.wholes("offset", [one.offset for one in values], low=-1)
    block.add("text_chars", list(map(_text_chars, traces, nodes, turns)))
    complete = [trace.status != "incomplete" for trace in traces]
    versions = zip(complete, ingested_ms, strict=True)
    block.add("row_version", [trace_version(complete=whole, ingested_ms=at) for whole, at in versions])
    return block


def _add_nodes(block: Block, nodes: Sequence[tuple[SourceNode, ...]]) -> None:
    block.text_lists("node_ids", [[node.node_id for node in some] for some in nodes])
    block.text_lists("node_texts", [[node.text for node in some] for some in nodes])
    scores = [[node.score for node in some] for some in nodes]
    check_reals([score for some in scores for score in some if score is not None])
    block.add("node_scores", scores)
    block.text_lists(
        "node_metadata", [[to_json("source_nodes.metadata", node.metadata) for node in some] for some in nodes]
    )


def _text_chars(trace: Trace, nodes: Sequence[SourceNode], turns: Sequence[Turn]) -> int:
    """The number of characters as `trace_rows.text_chars` counts them in a row's cells."""
    count = len(trace.query) + len(trace.response or "") + len(trace.error or "") + len(trace.reference or "")
    for node in nodes:
        count += len(node.text or "")
    for turn in turns:
        count += len(turn.content)
    return count
