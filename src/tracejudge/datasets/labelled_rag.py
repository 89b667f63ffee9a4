"""A dataset in the JSON forms that LlamaIndex's `from_json` reads: of LabelledRagDataset, and of QueryResponseDataset.

Written without LlamaIndex: of its releases some have the one class, some the other (`datasets.llama_index`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tracejudge.datasets.lines import Line
from tracejudge.scores import Label
from tracejudge_sdk.trace import Trace

FORMS: Final = ("labelled-rag", "query-response")
"""The first says more: it has the passages."""


def write_form(path: Path, lines: Mapping[str, Line], *, form: str) -> int:
    """Writes the file of the lines by case, and gives the number of its examples."""
    if form == "labelled-rag":
        value = labelled_rag(lines.values())
        count = len(value["examples"])
    else:
        value = query_response(lines)
        count = len(value["queries"])
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return count


def query_response(lines: Mapping[str, Line]) -> dict[str, Any]:
    """Questions and reference answers ("" where there is none) by case."""
    examples = {case: _example(line.trace, line.labels) for case, line in lines.items()}
    return {
        "queries": {case: example["query"] for case, example in examples.items()},
        "responses": {case: example["reference_answer"] for case, example in examples.items()},
    }


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
