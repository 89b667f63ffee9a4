"""Versions of a dataset in a folder: v0001.jsonl, v0002.jsonl ..., each with a manifest; none is ever changed."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracejudge.datasets.build import Row, case_of, one_source
from tracejudge.datasets.lines import BrokenLine, Line
from tracejudge.datasets.read import read_lines
from tracejudge.datasets.write import write_line
from tracejudge.errors import CheckFailed
from tracejudge.scores import Label
from tracejudge_sdk.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The version under which a dataset was written. `new` False: a version with this content existed already."""

    path: Path
    version: int
    sha256: str
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDiff:
    """What is different between two versions, by case; every tuple in order."""

    before: int
    after: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    relabelled: tuple[str, ...]
    changed: tuple[str, ...]  # the same question with another answer, other passages or another reference


def write_version(folder: Path, rows: Sequence[Row], facts: Mapping[str, Any]) -> Written:
    """Writes the rows as the next version, unless the latest one holds the same. Raises OSError."""
    out = io.BytesIO()
    for row in rows:
        write_line(out, row.trace, labels=one_source(row.labels))
    content = out.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    latest = max((number for one in folder.glob("v*.jsonl") if (number := _number(one)) is not None), default=0)
    if latest and hashlib.sha256((folder / _name(latest)).read_bytes()).hexdigest() == digest:
        return Written(path=folder / _name(latest), version=latest, sha256=digest, new=False)
    path = folder / _name(latest + 1)
    manifest = {"version": latest + 1, "sha256": digest, "rows": len(rows), **facts}
    # The manifest first: a dataset that is there is whole, and says what it is.
    path.with_suffix(".manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    temporary = path.with_suffix(".part")
    temporary.write_bytes(content)
    temporary.replace(path)
    return Written(path=path, version=latest + 1, sha256=digest, new=True)


def read_dataset(path: Path) -> dict[str, Line]:
    """The lines of a dataset by case. Raises OSError, and CheckFailed naming the line that cannot be read."""
    found: dict[str, Line] = {}
    for line in read_lines(path, app="file"):
        if isinstance(line, BrokenLine):
            raise CheckFailed(f"{path}: line {line.number} cannot be read: {line.detail}")
        if isinstance(line, Line):
            found[line.trace.case_id or case_of(line.trace)] = line
    return found


def diff(before: Path, after: Path) -> DatasetDiff:
    """The differences between two versions, in both directions."""
    old, new = read_dataset(before), read_dataset(after)
    both = sorted(old.keys() & new.keys())
    return DatasetDiff(
        before=len(old),
        after=len(new),
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        relabelled=tuple(case for case in both if _labels(old[case].labels) != _labels(new[case].labels)),
        changed=tuple(case for case in both if _content(old[case].trace) != _content(new[case].trace)),
    )


def _labels(labels: Sequence[Label]) -> dict[str, float]:
    return {label.criterion: label.value for label in labels}


def _content(trace: Trace) -> tuple[object, ...]:
    return (trace.query, trace.response, trace.reference, trace.expected_ids, [n.text for n in trace.source_nodes])


def _name(version: int) -> str:
    return f"v{version:04d}.jsonl"


def _number(path: Path) -> int | None:
    text = path.stem.removeprefix("v")
    return int(text) if text.isdecimal() else None
