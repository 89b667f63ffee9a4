"""The facts of a trace that a sampling condition may name, each with its kind.

Names are those of the wire contract (`status`, `latency_ms`, ...), `tags.NAME` for a tag and `signals.NAME` for a
signal. Passages and earlier turns have no name here; their lengths and scores do, as signals.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Final, Literal

from tracejudge.sampling.epoch import Epoch, VersionKey
from tracejudge.signals import Signals
from tracejudge_sdk.trace import Trace

Kind = Literal["text", "tag", "number", "flag", "time", "texts"]
Fact = str | float | bool | datetime | tuple[str, ...] | None

TAG_PREFIX: Final = "tags."
SIGNAL_PREFIX: Final = "signals."
VERSION_AGE: Final = "version_age_h"
"""Hours since the first trace of the trace's version was stored, as the epoch of its event time knows it; none for a
version that is not young, and none in the minute in which a version is new to everybody."""

FIELD_KINDS: Final[Mapping[str, Kind]] = {
    "trace_id": "text",
    "app": "text",
    "environment": "text",
    "version": "text",
    "event_time": "time",
    "query": "text",
    "response": "text",
    "status": "text",
    "error": "text",
    "reference": "text",
    "expected_ids": "texts",
    "case_id": "text",
    "latency_ms": "number",
    "model": "text",
    "prompt_version": "text",
    "index_version": "text",
    "category": "text",
    "session_id": "text",
    "user_id": "text",
    "language": "text",
    "truncated": "flag",
    "lossy": "flag",
    "head_probability": "number",
    "version_age_h": "number",
    "sdk": "text",
    "signals.query_chars": "number",
    "signals.response_chars": "number",
    "signals.context_chars": "number",
    "signals.node_count": "number",
    "signals.text_node_count": "number",
    "signals.language": "text",
    "signals.refusal": "flag",
    "signals.lexical_overlap": "number",
    "signals.retrieval_score_min": "number",
    "signals.retrieval_score_median": "number",
    "signals.retrieval_score_max": "number",
    "signals.has_context": "flag",
}

CLOSED_SETS: Final[Mapping[str, tuple[str, ...]]] = {"status": ("ok", "error", "incomplete")}
"""Fields that only ever hold one of a few texts: any other text in a condition is a typing error."""


def kind_of(field: str) -> Kind:
    """The kind of the named fact. Raises ValueError with the nearest known names."""
    if field.startswith(TAG_PREFIX) and len(field) > len(TAG_PREFIX):
        return "tag"
    kind = FIELD_KINDS.get(field)
    if kind is None:
        raise ValueError(f"is not a field of a trace: {_hint(field)}")
    return kind


def fact(field: str, trace: Trace, signals: Signals, epoch: Epoch | None = None) -> Fact:
    """The value of the named fact; None where the trace has none. The name is one that `kind_of` accepts."""
    if field == VERSION_AGE:
        key = VersionKey(trace.environment, trace.app, trace.version)
        return None if epoch is None else epoch.version_age_h(key, trace.event_time)
    if field.startswith(TAG_PREFIX):
        return trace.tags.get(field[len(TAG_PREFIX) :])
    source: Trace | Signals = trace
    if field.startswith(SIGNAL_PREFIX):
        source, field = signals, field[len(SIGNAL_PREFIX) :]
    value: Fact = getattr(source, field)
    return value


def _hint(field: str) -> str:
    if field in ("source_nodes", "history"):
        return "lists have no value to compare; write signals.node_count, signals.context_chars or another signal"
    prefix, _, name = field.partition(".")
    if name and get_close_matches(prefix, ["tags"]):
        return f"did you mean {TAG_PREFIX}{name}?"
    name = field.rpartition(".")[2]
    known = {full.rpartition(".")[2]: full for full in FIELD_KINDS}
    near = [known[match] for match in get_close_matches(name, known, n=2)]
    if near:
        return f"did you mean {' or '.join(near)}? Tags are written tags.NAME, signals signals.NAME"
    return "write a field of the wire contract such as status, tags.NAME for a tag, or signals.NAME for a signal"
