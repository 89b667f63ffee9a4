"""What the options of `tracejudge replay` mean: a selection, a source of traces, a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from tracejudge.judging import Estimate, JudgeSpec, call_cost_usd, estimate
from tracejudge.replay import (
    FileSource,
    JudgePlan,
    PairSource,
    Selection,
    Source,
    SourceFile,
    StoreSource,
    file_hash,
    plan_judge,
)
from tracejudge.store import Draw, MeasuredTokens, Store, TraceFilter
from tracejudge_consumer.choosing.judges import check_pairwise
from tracejudge_consumer.choosing.trace_fields import check_one_value, trace_fields
from tracejudge_consumer.files.form import FileForm
from tracejudge_sdk.trace import Trace

_FIELDS: Final = ("environment", "app", "version", "category", "user_id", "session_id", "status")
_MEASURED_TRACES: Final = 500
_ENOUGH_CALLS: Final = 20  # fewer say little about what a call takes


def with_fields(where: TraceFilter, wanted: Iterable[str]) -> TraceFilter:
    """The filter narrowed by each FIELD=VALUE. Raises BadParameter as `trace_fields` does."""
    own: dict[str, Any] = {}
    also = dict(where.also)
    for name, value in trace_fields(wanted, beside=_FIELDS).items():
        if name not in _FIELDS:
            also[name] = value
            continue
        if (option := getattr(where, name)) is not None:
            check_one_value(name, option, value)
        own[name] = value
    return replace(where, also=tuple(also.items()), **own)


def choose(
    where: TraceFilter, files: Iterable[str], *, sample: int | None, seed: int, against: str | None = None
) -> Selection:
    """The selection that was asked for; a sample is not drawn yet."""
    named = tuple(SourceFile(path=path, sha256=file_hash(Path(path))) for path in files)
    return Selection(where=where, files=named, sample=sample, seed=seed, against=against)


def check_pairs(asked: Selection, specs: Iterable[JudgeSpec]) -> None:
    """Raises UsageError where two versions' answers are to be compared and it is not clear which, or by whom."""
    if asked.against is None:
        return
    if asked.where.version is None or asked.where.version == asked.against:
        raise click.UsageError("--against VERSION also needs --version: the version whose answers are judged")
    if asked.files or asked.sample is not None:
        raise click.UsageError("--against pairs all stored answers: omit --from and --sample")
    check_pairwise(specs)


def drawn(selection: Selection, store: Store, form: FileForm, *, app: str) -> Selection:
    """The selection with its sample drawn, so that it stays the same whatever else is stored later."""
    if selection.sample is None or selection.where.draw is not None:
        return selection
    source = source_of(selection, store, form, specs=(), app=app)
    if isinstance(source, FileSource):
        line = source.draw_line(traces=selection.sample, seed=selection.seed)
    else:
        line = store.traces.draw_line(selection.where, traces=selection.sample, seed=selection.seed)
    if line is None:  # it has no more than these: all are taken
        return selection
    return replace(selection, where=replace(selection.where, draw=Draw(seed=selection.seed, at_most=line)))


def source_of(selection: Selection, store: Store, form: FileForm, *, specs: Collection[JudgeSpec], app: str) -> Source:
    """Where the traces of the selection come from."""
    if not selection.files:
        if selection.against is not None:
            return PairSource(store, selection.where, against=selection.against)
        return StoreSource(store, selection.where, asked=all(spec.built_in and spec.asks_model for spec in specs))

    def read(path: Path) -> Iterator[object]:
        if path.suffix == ".parquet":
            from tracejudge.datasets.parquet import read_parquet

            return iter(read_parquet(path, app=app))
        return iter(form.lines(path, app=app))

    return FileSource([Path(one.path) for one in selection.files], selection.where, read=read)


def plans(specs: Iterable[JudgeSpec], source: Source, store: Store, *, traces: int) -> tuple[JudgePlan, ...]:
    """What each judge would take, from the length of the first traces and how long its calls took so far."""
    first: list[Trace] = []
    for page in islice(source.pages(), _MEASURED_TRACES):
        first += page.traces
        if len(first) >= _MEASURED_TRACES:
            break
    found = []
    for spec in specs:
        seen = estimate([spec], traces=first)[0]
        cost = _scaled(seen, traces / max(1, len(first)), traces)
        latencies = store.calls.latencies_ms(spec.judge_id()) if spec.calls_model else []
        token_calls = 0
        if spec.asks_model and (known := store.calls.usual_tokens(spec.judge_id())) and known.calls >= _ENOUGH_CALLS:
            cost, token_calls = _measured(spec, cost, known), known.calls
        found.append(plan_judge(spec, cost, latencies, token_calls=token_calls))
    return tuple(found)


def _measured(spec: JudgeSpec, cost: Estimate, known: MeasuredTokens) -> Estimate:
    """The estimate with the tokens that this judge's calls have taken so far: those of texts are reckoned a little
    high, and how long its replies are nobody knows before."""
    input_tokens = round(cost.calls * known.input_per_call)
    output_tokens = round(cost.calls * known.output_per_call)
    usd = call_cost_usd(spec, input_tokens=input_tokens, output_tokens=output_tokens)
    return replace(cost, input_tokens=input_tokens, output_tokens=output_tokens, usd=usd)


def _scaled(item: Estimate, factor: float, count: int) -> Estimate:
    numbers = {one.name: getattr(item, one.name) for one in fields(Estimate)}
    for name in ("calls", "input_tokens", "output_tokens"):
        numbers[name] = round(numbers[name] * factor)
    numbers["usd"] = None if item.usd is None else item.usd * factor
    return Estimate(**{**numbers, "traces": count})
