"""A dataset out of traffic: a share of every day and stratum, without duplicates and personal data, labels carried.

Of each stratum of each day the traces with the lowest hashes are taken, so many as the share asks for and at least one:
rare kinds of question are in it, the same traffic gives the same dataset, and a larger share only adds.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from tracejudge.datasets.near import NearDuplicates, normal
from tracejudge.scores import Label, TraceKey
from tracejudge_sdk.digests import Digester
from tracejudge_sdk.personal_data import mask_personal_data
from tracejudge_sdk.redact import Redaction
from tracejudge_sdk.trace import Trace

STRATA: Final = ("category", "app", "version", "language", "status", "model")
"""Fields by which traffic may be stratified, beside `tags.NAME`."""

Cell = tuple[str, ...]  # the day, then the values of the strata


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPolicy:
    """The settings by which a dataset is built. `near` 1.0 or more keeps near duplicates; exact ones always go."""

    share: float = 0.02  # of each day's traces in each stratum
    at_most: int = 2000  # rows: the share is lowered until they suffice
    stratify: tuple[str, ...] = ("category",)
    near: float = 0.8
    seed: int = 0
    personal: bool = False  # keep personal data


class Row(NamedTuple):
    """One line of a dataset."""

    trace: Trace
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """Rows in the order of event time, and what became of the others."""

    rows: tuple[Row, ...]
    traffic: int
    chosen: int
    labelled: int
    exact_duplicates: int
    near_duplicates: int
    share: float  # as it was used
    notes: Mapping[str, int] = field(default_factory=dict)  # of the redaction


def build(
    traffic: Callable[[], Iterable[Trace]],
    policy: BuildPolicy,
    *,
    labels: Mapping[TraceKey, Sequence[Label]],
    digester: Digester,
) -> Built:
    """The dataset of what `traffic` gives, in the order of event time each time it is called.

    Every trace with a label is in it, whatever the share. It is read twice; held are the rows chosen and a day's.
    """
    sizes = Counter(_cell(trace, policy) for trace in traffic())
    share, quota = _quotas(sizes, policy)
    notes: Counter[str] = Counter()
    clean = Redaction([mask_personal_data], digester)
    rows = []
    for trace in _chosen(traffic(), quota, labels, policy):
        mine = tuple(labels.get(_key(trace), ()))
        if not policy.personal:
            # Who asked is of no use to a dataset; what is left of them goes by its form.
            found = clean(
                trace.model_copy(update={"user_id": None, "session_id": None}), lambda note: notes.update([note])
            )
            if not isinstance(found, Trace):
                raise TypeError(f"{type(found).__name__} came of a trace")  # rather than writing it down as it was
            trace = found
        rows.append(Row(_with_case(trace), mine))
    kept, exact, near = _distinct(rows, policy)
    return Built(
        rows=tuple(kept),
        traffic=sizes.total(),
        chosen=len(rows),
        labelled=sum(bool(row.labels) for row in kept),
        exact_duplicates=exact,
        near_duplicates=near,
        share=share,
        notes=notes,
    )


def _chosen(
    traffic: Iterable[Trace], quota: Mapping[Cell, int], labels: Mapping[TraceKey, object], policy: BuildPolicy
) -> Iterator[Trace]:
    """The traces of each cell with the lowest hashes, and the labelled ones; holds one day of traces in memory."""
    day, heaps = "", dict[Cell, list[tuple[int, int, Trace]]]()
    taken: list[Trace] = []

    def of_day() -> Iterator[Trace]:
        found = taken + [trace for heap in heaps.values() for _, _, trace in heap]
        yield from sorted(found, key=lambda trace: (trace.event_time, trace.trace_id, trace.app, trace.environment))

    for number, trace in enumerate(traffic):
        cell = _cell(trace, policy)
        if cell[0] != day:
            yield from of_day()
            day, heaps, taken = cell[0], {}, []
        if _key(trace) in labels:
            taken.append(trace)
        elif cell in quota:
            heap = heaps.setdefault(cell, [])
            # The lowest hashes stay: a heap of their negatives has the highest of them on top.
            heapq.heappush(heap, (-_hash(trace, policy.seed), number, trace))
            if len(heap) > quota[cell]:
                heapq.heappop(heap)
    yield from of_day()


def _quotas(sizes: Mapping[Cell, int], policy: BuildPolicy) -> tuple[float, dict[Cell, int]]:
    """The share that fits, and how many rows of each cell it gives. With more cells than rows the largest have one."""

    def rows(share: float) -> int:
        return sum(max(1, round(share * size)) for size in sizes.values())

    share = policy.share
    if rows(share) > policy.at_most:
        low, high = 0.0, share
        for _ in range(40):
            middle = (low + high) / 2.0
            low, high = (middle, high) if rows(middle) <= policy.at_most else (low, middle)
        share = low
    quotas = {cell: max(1, round(share * size)) for cell, size in sizes.items()}
    if len(quotas) > policy.at_most:
        largest = sorted(sizes, key=lambda cell: (-sizes[cell], cell))[: policy.at_most]
        quotas = dict.fromkeys(largest, 1)
    return share, quotas


def _distinct(rows: list[Row], policy: BuildPolicy) -> tuple[list[Row], int, int]:
    """Rows without duplicates: of two with one question a labelled one stays, else the first."""
    asked: set[tuple[str, str]] = set()
    similar: dict[str, NearDuplicates] = {}
    kept, exact, close = [], 0, 0
    for row in sorted(rows, key=lambda row: not row.labels):
        question = (row.trace.app, normal(row.trace.query))
        if question in asked:
            exact += 1
            continue
        asked.add(question)
        if policy.near < 1.0:
            index = similar.setdefault(row.trace.app, NearDuplicates(policy.near))
            if index.seen(row.trace.query):
                close += 1
                continue
        kept.append(row)
    kept.sort(key=lambda row: (row.trace.event_time, row.trace.trace_id))
    return kept, exact, close


def case_of(trace: Trace) -> str:
    """A name for the question that stays the same over versions of a dataset: by app and normalised text."""
    text = f"{trace.app}\x1f{normal(trace.query)}"
    return f"q-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def one_source(labels: Sequence[Label]) -> tuple[Label, ...]:
    """The labels of a trace as a line of a file can hold them: one value a criterion, the mean of its sources."""
    sources = "+".join(sorted({label.source for label in labels if label.source}))
    by_criterion: dict[str, list[Label]] = {}
    for label in labels:
        by_criterion.setdefault(label.criterion, []).append(label)
    return tuple(
        replace(found[0], value=sum(one.value for one in found) / len(found), source=sources, note="")
        for _, found in sorted(by_criterion.items())
    )


def _with_case(trace: Trace) -> Trace:
    return trace if trace.case_id else trace.model_copy(update={"case_id": case_of(trace)})


def _cell(trace: Trace, policy: BuildPolicy) -> Cell:
    return (trace.event_time.date().isoformat(), *(_value(trace, name) for name in policy.stratify))


def _value(trace: Trace, name: str) -> str:
    if name.startswith("tags."):
        return trace.tags.get(name.removeprefix("tags."), "")
    return str(getattr(trace, name) or "")


def _hash(trace: Trace, seed: int) -> int:
    text = "\x1f".join((f"dataset-{seed}", trace.environment, trace.app, trace.trace_id))
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _key(trace: Trace) -> TraceKey:
    return TraceKey(trace.environment, trace.app, trace.trace_id)
