"""Builds the data that ships with the package and the small samples of the tests, from the folder of labelled sets.

    TRACEJUDGE_DATA=FOLDER python -m tests.support.build_data

The result is a function of the folder's content alone. What is taken and what is changed: the NOTICE beside each file.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "src/tracejudge/datasets/data/demo.jsonl.gz"
SAMPLES = ROOT / "tests/data"

_MTRAG_APPS = ("mtrag-ibmcloud", "mtrag-govt")
_SAMPLE_EVERY = 9


def main(source: Path) -> None:
    mtrag = [_kept(row) for row in _rows(source / "mtrag_human.jsonl.gz") if row["app"] in _MTRAG_APPS]
    hagrid = [_kept(row) for row in _rows(source / "attribution_claims.jsonl.gz") if row["app"] == "hagrid"]
    true = [row for row in hagrid if row["labels"]["faithfulness"]]
    false = [row for row in hagrid if not row["labels"]["faithfulness"]]
    _write(DEMO, mtrag + true)
    _write(SAMPLES / "mtrag_sample.jsonl.gz", mtrag[::_SAMPLE_EVERY])
    _write(SAMPLES / "hagrid_unfaithful.jsonl.gz", false)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rb") as file:
        for line in file:
            yield json.loads(line)


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    labels = {name: row["labels"][name] for name in ("faithfulness", "answerability") if name in row["labels"]}
    metadata = {
        name: row["metadata"][name] for name in ("dataset", "group", "model", "turn") if name in row["metadata"]
    }
    fields = ("trace_id", "app", "query", "history", "response", "source_nodes", "reference")
    kept = {name: row[name] for name in fields if row.get(name)}
    return {"query": "", "response": None, "source_nodes": [], **kept, "labels": labels,
            "label_source": row["label_source"], "metadata": metadata}  # fmt: skip


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # No name and no time in the header, so that the same rows give the same bytes.
    with path.open("wb") as file, gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    main(Path(os.environ["TRACEJUDGE_DATA"]))
