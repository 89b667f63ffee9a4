"""Where `tracejudge score` writes: one row for each (trace, judge), as JSON lines or Parquet, and a manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Protocol

import click

from tracejudge.errors import MissingExtra
from tracejudge.judging import JudgeSpec, RunCaps
from tracejudge.scores import LedgerRow, Score
from tracejudge_consumer.terminal.rendering import to_json
from tracejudge_sdk.json_values import scrub_text
from tracejudge_sdk.trace import Trace

PARQUET: Final = ".parquet"

Row = Mapping[str, Any]


class RowsFile(Protocol):
    """Takes rows until it is closed."""

    def write(self, rows: Sequence[Row]) -> None: ...
    def __enter__(self) -> RowsFile: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_rows(path: Path) -> RowsFile:
    """A file of rows at `path`: Parquet where it ends in .parquet, else JSON lines.

    Raises OSError, and MissingExtra where Parquet needs a package that is not there.
    """
    return _ParquetRows(path) if path.suffix == PARQUET else _JsonRows(path)


def row_of(item: Score | LedgerRow, trace: Trace, *, heuristic: bool, with_answer: bool) -> dict[str, Any]:
    """What became of one (trace, judge). `outcome` of an unjudged one is the decision; it has no score.

    `with_answer` adds what an engine answered: where the input has no answers, the rows would say nothing else of them.
    """
    row: dict[str, Any] = {
        "trace_id": item.trace_id,
        "case_id": trace.case_id,
        "app": item.app,
        "version": item.version,
        "category": item.category,
        "judge": item.judge_name,
        "judge_id": item.judge_id,
        "heuristic": heuristic,
    }
    if isinstance(item, Score):
        row |= {
            "outcome": item.outcome.value,
            "score": item.score,
            "reason": item.reason,
            "feedback": item.feedback,
            "flags": list(item.flags),
            "raw_reply": item.raw_reply,
            "model_reported": item.model_reported,
            "fingerprint": item.fingerprint,
            "calls": item.usage.calls,
            "input_tokens": item.usage.input_tokens,
            "output_tokens": item.usage.output_tokens,
            "cost_usd": item.usage.cost_usd,
            "judge_latency_ms": item.usage.latency_ms,
        }
    else:
        row |= {"outcome": item.decision.value, "score": None, "reason": item.reason, "feedback": "", "flags": []}
        row |= {"raw_reply": "", "model_reported": "", "fingerprint": "", "calls": 0, "input_tokens": 0}
        row |= {"output_tokens": 0, "cost_usd": 0.0, "judge_latency_ms": 0.0}
    if with_answer:
        row |= {"query": trace.query, "response": trace.response, "answer_latency_ms": trace.latency_ms}
    return row


class _Rows:
    """An open file. What it held before is given up for the first row, or an end without any: a run that cannot begin
    (a key that is not set, a class that cannot be imported) costs no verdict of an earlier one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new = not path.exists()
        self._plain = self._new or path.is_file()
        self._file = path.open("r+b" if self._plain and not self._new else "wb")
        self._begun = False

    def begin(self) -> BinaryIO:
        """The file, which holds nothing but what was written since."""
        if not self._begun and self._plain:
            self._file.truncate(0)
        self._begun = True
        return self._file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.begin()
        self._file.close()
        if self._new and not self._begun:
            self._path.unlink(missing_ok=True)


class _JsonRows(_Rows):
    def write(self, rows: Sequence[Row]) -> None:
        if rows:
            self.begin().write("".join(to_json(_sound(row)) + "\n" for row in rows).encode())

    def __enter__(self) -> RowsFile:
        return self


class _ParquetRows(_Rows):
    """One row group a batch; the columns are those of the first row."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise MissingExtra("Parquet output", extra="parquet") from error
        self._arrow = pyarrow
        self._types = {
            **dict.fromkeys(("score", "cost_usd", "judge_latency_ms", "answer_latency_ms"), pyarrow.float64()),
            **dict.fromkeys(("calls", "input_tokens", "output_tokens"), pyarrow.int64()),
            "heuristic": pyarrow.bool_(),
            "flags": pyarrow.list_(pyarrow.string()),
        }
        super().__init__(path)
        self._writer: Any = None

    def write(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        schema = self._arrow.schema([(name, self._types.get(name, self._arrow.string())) for name in rows[0]])
        if self._writer is None:
            self._writer = self._arrow.parquet.ParquetWriter(self.begin(), schema, compression="zstd")
        self._writer.write_table(self._arrow.Table.from_pylist([_sound(row) for row in rows], schema=schema))

    def __enter__(self) -> RowsFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
        super().__exit__(kind, error, trace)


def _sound(row: Row) -> Row:
    """Without lone surrogates: Parquet's text has no place for them, and few readers of JSON take their escapes."""
    return {name: scrub_text(value) if isinstance(value, str) else value for name, value in row.items()}


def manifest_path(output: Path) -> Path:
    """The path of the manifest of `output`."""
    return output.with_name(f"{output.name}.manifest.json")


def default_output(file: Path, specs: Sequence[JudgeSpec]) -> Path:
    """The default file for the verdicts on `file`: never one that holds verdicts of other judges, which may have cost
    money and are what these will be compared with.

    Raises UsageError where another version of one of these judges is there: what reads the file next would find its
    verdicts and take them for the new ones.
    """
    plain, names = file.name.removesuffix(".gz"), [spec.name for spec in specs]
    first = file.with_name(f"{plain}.scores.jsonl")
    others = _other_judges(first, specs)
    if not others:
        return first
    second = file.with_name(f"{plain}.{'-'.join(names)}.scores.jsonl")
    if not others & set(names):
        in_the_way, taken = second, _other_judges(second, specs)
    else:
        in_the_way, taken = first, others
    if taken:
        raise click.UsageError(
            f"{in_the_way} holds the verdicts of another version of {', '.join(sorted(taken & set(names)) or names)}: "
            "name another file with --output, or delete it first"
        )
    return second


def _other_judges(output: Path, specs: Sequence[JudgeSpec]) -> frozenset[str]:
    """Names of the judges whose verdicts `output` holds, where they are not all those of `specs`."""
    if not output.exists():
        return frozenset()
    mine = {str(spec.judge_id()) for spec in specs}
    try:
        judges = json.loads(manifest_path(output).read_text(encoding="utf-8"))["judges"]
        found = {str(judge["judge_id"]) for judge in judges}
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        RecursionError,
    ):  # it was broken off before its manifest, or is none of ours
        found = _judges_of_rows(output)
        if found < mine:  # those of one that was broken off early, and begins anew
            return frozenset()
    return frozenset() if found == mine else frozenset(judge_id.partition("@")[0] for judge_id in found)


def _judges_of_rows(output: Path) -> set[str]:
    found = set()
    with output.open("rb") as lines:
        for line in lines:
            try:
                found.add(str(json.loads(line)["judge_id"]))
            except (
                ValueError,
                LookupError,
                TypeError,
                RecursionError,
            ):  # the last one, cut off, or a file of something else
                break
    return found


def write_manifest(
    output: Path,
    *,
    source: Path,
    specs: Sequence[JudgeSpec],
    caps: RunCaps,
    engine: Mapping[str, Any] | None,
    facts: Mapping[str, Any],
) -> Path:
    """What was judged, by whom, under which caps, and what came of it: enough to do it again. Gives its path."""
    path = manifest_path(output)
    manifest = {
        "release": version("tracejudge"),
        "source": {"file": source.name, "bytes": source.stat().st_size, "sha256": _sha256(source)},
        "output": output.name,
        "judges": [
            {"judge_id": spec.judge_id(), "heuristic": spec.heuristic, "spec": spec.model_dump(mode="json")}
            for spec in specs
        ],
        "caps": {"max_calls": caps.max_calls, "max_usd": caps.max_usd},
        "engine": engine,
        **facts,
    }
    path.write_text(to_json(manifest, indent=1) + "\n", encoding="utf-8")
    return path


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
