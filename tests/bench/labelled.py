"""The real texts of the labelled sets as traces, for benches that need texts as people write them."""

from __future__ import annotations

import os
import random
from functools import cache
from pathlib import Path
from typing import Final

from tracejudge.datasets import Line, read_lines
from tracejudge_sdk.trace import Trace

SETS: Final = (
    "ragtruth_qa",
    "ragtruth_summary",
    "ragtruth_data2txt",
    "mtrag_human",
    "attribution_claims",
    "begin_wow",
    "factcheck_stance",
)


@cache
def labelled_traces(count: int) -> tuple[Trace, ...]:
    """`count` traces with a response and passages, drawn from all sets together, each with an id of its own.

    Beyond what there is (some 4 400) they begin anew. Raises RuntimeError where TRACEJUDGE_DATA names no such folder.
    """
    folder = os.environ.get("TRACEJUDGE_DATA", "")
    if not folder or not (Path(folder) / f"{SETS[0]}.jsonl.gz").exists():
        raise RuntimeError(f"TRACEJUDGE_DATA={folder!r} is no folder with the labelled sets ({SETS[0]}.jsonl.gz ...)")
    found = [
        line.trace
        for name in SETS
        for line in read_lines(Path(folder) / f"{name}.jsonl.gz")
        if isinstance(line, Line) and line.trace.response and any(node.text for node in line.trace.source_nodes)
    ]
    random.Random(1).shuffle(found)
    return tuple(found[n % len(found)].model_copy(update={"trace_id": f"t-{n:06d}"}) for n in range(count))
