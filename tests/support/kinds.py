"""A spec of every built-in kind, of which a test names only what it is about."""

from __future__ import annotations

from typing import Any

from tracejudge.judging import JudgeSpec
from tracejudge.judging.specs.kinds import BUILT_IN

OPTIONS: dict[str, dict[str, Any]] = {
    "guideline": {"guidelines": ["Names the limit.", "Is polite."]},
    "semantic_similarity": {"embed_model": "llama_index.core.embeddings.mock_embed_model:MockEmbedding"},
    "latency": {"max_ms": 2000},
    "length": {"min": 5, "max": 500},
    "regex": {"pattern": r"\blimit\b"},
    "json_schema": {"json_schema": {"type": "object", "required": ["limit"]}},
}

EMBED = {"embed_dim": 4}


def kind_spec(kind: str, **fields: Any) -> JudgeSpec:
    """A judge of `kind` that has all it needs, named after it; its model is nobody's in unit tests."""
    values: dict[str, Any] = {"name": kind.replace("_", "-"), "kind": kind, "max_calls_per_h": 1_000_000}
    if kind in OPTIONS:
        values["options"] = dict(OPTIONS[kind])
    if kind == "semantic_similarity":
        values["options"]["embed_options"] = EMBED
    if BUILT_IN[kind].asks_model:
        values |= {"base_url": "http://127.0.0.1:9/v1", "model": "judge"}
    return JudgeSpec.model_validate({**values, **fields})
