"""Traces from Parquet files: those that `tracejudge export` writes, or columns named as the fields of the contract."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from tracejudge.datasets.lines import BrokenLine, Line, RecordLine
from tracejudge.datasets.read import file_times, read_object
from tracejudge.errors import CheckFailed, MissingExtra
from tracejudge_sdk.json_values import scrub_surrogates

_ROWS: Final = 200
_OURS: Final = "node_ids"  # a column of an export, which no other form has
_NOT_OF_A_TRACE: Final = frozenset(
    {"signals", "ingested_at", "source", "partition", "offset", "text_chars", "stored_at"}
)


def read_parquet(path: Path, *, app: str | None = None) -> Iterator[Line | RecordLine | BrokenLine]:
    """What the rows hold, in order, a few hundred at a time; a row is numbered like a line, from 1.

    Raises MissingExtra without pyarrow, CheckFailed for a file that is no Parquet, OSError as `open` does.
    """
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtra("reading Parquet", extra="parquet") from error
    times = file_times(path.stat().st_mtime_ns)
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    value = _of_export(row) if _OURS in row else row
                    plain = {name: _plain(one) for name, one in value.items() if one is not None}
                    yield read_object(number, plain, app=app, event_time=times)
    except arrow.ArrowInvalid as error:
        raise CheckFailed(f"{path}: is not a Parquet file: {str(error).splitlines()[0]}") from error


def _of_export(row: dict[str, Any]) -> dict[str, Any]:
    value = {name: one for name, one in row.items() if name not in _NOT_OF_A_TRACE and not name.startswith(_PIECES)}
    columns = [row[f"node_{name}"] or [] for name in ("ids", "texts", "scores", "metadata")]
    value["source_nodes"] = [
        {"node_id": node_id, "text": text, "score": score, "metadata": json.loads(metadata)}
        for node_id, text, score, metadata in zip(*columns, strict=True)
    ]
    turns = zip(row["history_roles"] or [], row["history_contents"] or [], strict=True)
    value["history"] = [{"role": role, "content": content} for role, content in turns]
    return value


_PIECES: Final = ("node_", "history_")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        at = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
        return at.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        pairs = bool(value) and all(isinstance(one, tuple) and len(one) == 2 for one in value)
        return {str(key): _plain(one) for key, one in value} if pairs else [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return scrub_surrogates(value)
