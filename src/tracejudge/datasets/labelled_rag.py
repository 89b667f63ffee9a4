"""A dataset in the JSON form of LlamaIndex's LabelledRagDataset, which its `from_json` reads.

Written without LlamaIndex: releases of it that no longer bring the class, and those that do, read the same files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tracejudge.datasets.lines import Line
from tracejudge.scores import Label
from tracejudge_sdk.trace import Trace


def labelled_rag(lines: Iterable[Line]) -> dict[str, Any]:
    """The examples of traces. The reference answer is the trace's reference, else an answer that people called good.

    A trace with neither keeps its question and passages, with an empty reference answer.
    """
    return {"examples": [_example(line.trace, line.labels) for line in lines]}


def _example(trace: Trace, labels: tuple[Label, ...]) -> dict[str, Any]:
    answer, by = "", None
    if trace.reference:
        answer, by = trace.reference, _by("human", "")
    elif trace.response and labels and all(label.value >= 0.5 for label in labels):
        answer, by = trace.response, _by("ai", trace.model or "")
    return {
        "query": trace.query,
        "query_by": _by("human", ""),
        "reference_contexts": [node.text for node in trace.source_nodes if node.text],
        "reference_answer": answer,
        "reference_answer_by": by,
    }


def _by(kind: str, model: str) -> dict[str, str]:
    return {"model_name": model, "type": kind}
