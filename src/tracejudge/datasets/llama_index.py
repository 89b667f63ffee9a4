"""A dataset as the labelled dataset of the LlamaIndex that is installed, whichever of its classes that one has.

Up to 0.13, llama-index-core has `LabelledRagDataset`: questions, passages and reference answers. 0.14.25 ships without
it; what it can load is `QueryResponseDataset` (deprecated in favour of the other): questions and reference answers.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
import warnings
from pathlib import Path
from typing import Any

from tracejudge.datasets.labelled_rag import FORMS, write_form
from tracejudge.datasets.versions import read_dataset

_CLASSES = {
    "labelled-rag": ("llama_index.core.llama_dataset", "LabelledRagDataset"),
    "query-response": ("llama_index.core.evaluation", "QueryResponseDataset"),
}


def load(path: Path | str) -> Any:
    """A version of a dataset (`v0001.jsonl`) as LlamaIndex's own object, read by its `from_json`.

    A LabelledRagDataset where this release of LlamaIndex has one, else a QueryResponseDataset: its type says which.
    Raises CheckFailed for a file that is no dataset, ImportError where LlamaIndex has neither class.
    """
    lines = read_dataset(Path(path))
    for form in FORMS:
        if (cls := _class_of(form)) is None:
            continue
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True):
            # Recorded and dropped: that the class is deprecated is known here, and it sets its own filter.
            target = Path(folder) / "dataset.json"
            write_form(target, lines, form=form)
            return cls.from_json(str(target))
    raise ImportError(
        "this LlamaIndex has neither LabelledRagDataset nor QueryResponseDataset: install llama-index-core 0.13 or 0.14"
    )


def _class_of(form: str) -> Any:
    module, name = _CLASSES[form]
    if importlib.util.find_spec(module) is None:
        return None
    return getattr(importlib.import_module(module), name, None)
