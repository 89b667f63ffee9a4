"""The wire contract as files, for producers in other languages.

record.v1.json   JSON Schema (draft 2020-12) of a record: trace, part or feedback
keep.v1.json     the sampling hash in words, and decisions that every implementation must reproduce

`python -m tracejudge_sdk.schema record` (or `keep`) prints what the code at hand says.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, Final, Literal

from tracejudge_sdk.sampling import HEAD_SALT, TAIL_SALT, keep, position

SchemaName = Literal["record", "keep"]

_IDS: Final = (
    "t-000000",
    "t-000001",
    "t-000002",
    "t-000003",
    "a",
    "0198c5a2-7d3e-7c1a-9b53-0f6e2d4c8a11",
    "0198c5a2-7d3e-7c1a-9b53-0f6e2d4c8a12",
    "Straße/été",
    "質問-42",
    "🙂",
    " with space ",
    "x" * 128,
)
_PROBABILITIES: Final = (0.0, 0.01, 0.1, 0.25, 0.5, 0.9, 1.0)


def published(name: SchemaName) -> Any:
    """The published file, parsed."""
    return json.loads(resources.files(__name__).joinpath(f"{name}.v1.json").read_text(encoding="utf-8"))


def keep_vectors() -> dict[str, Any]:
    """What keep.v1.json holds: for ids and salts the position on [0, 2**64) and the decisions at probabilities."""
    return {
        "title": "tracejudge sampling hash, version 1",
        "algorithm": (
            "position = the first 8 bytes, as a big-endian unsigned integer, of SHA-256 over the salt in UTF-8, one "
            "zero byte, and the trace id in UTF-8. A trace is kept when position < floor(probability * 2**64), "
            "computed in whole numbers of at least 65 bits; probability 1 keeps every trace and 0 none."
        ),
        "salts": {"head": HEAD_SALT, "tail": TAIL_SALT},
        "vectors": [
            {
                "trace_id": trace_id,
                "salt": salt,
                # As text: JavaScript's numbers end at 2**53.
                "position": str(position(trace_id, salt)),
                "kept_at": [p for p in _PROBABILITIES if keep(trace_id, p, salt)],
                "not_kept_at": [p for p in _PROBABILITIES if not keep(trace_id, p, salt)],
            }
            for trace_id in _IDS
            for salt in (HEAD_SALT, TAIL_SALT)
        ],
    }
