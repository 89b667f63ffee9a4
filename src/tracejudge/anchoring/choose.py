"""Which traces become anchors: as many that passed as that failed, by people's labels first, by the judge's word else.

A set of answers that all pass would hardly notice a judge that became lenient, and one that mirrors good traffic has
few failures; so both sides get half, as far as there are enough. Among equals a seeded hash of the id decides.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracejudge.anchors.anchor import Anchor
from tracejudge.comparing.labelled import settled_labels
from tracejudge.datasets import Line
from tracejudge.datasets.read import read_lines
from tracejudge.errors import CheckFailed
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.judging.tasks import content_hash
from tracejudge.scores import Label, TraceKey
from tracejudge.store import ScoreFilter, Store, StoredTrace, TraceFilter

_SPARE = 4  # so many times the wanted number are looked at: texts may have expired, contents may be equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The anchors, and how many of them are there for which reason."""

    anchors: tuple[Anchor, ...]
    labelled: int
    passed: int  # by label, or by the judge where there is none
    failed: int


def choose_anchors(store: Store, where: TraceFilter, spec: JudgeSpec, *, size: int, seed: int = 0) -> Chosen:
    """Stored traces of the filter that have their texts and a verdict, by people or by the judge (any JudgeId of its
    name, live). The same for the same store and seed."""
    truth = settled_labels(store.labels.all(criterion=spec.criterion))
    sides: dict[bool, list[TraceKey]] = {}
    ranked = _ranked(store, where, spec, truth, seed=seed)
    found: dict[bool, list[tuple[bool, int, TraceKey]]] = {True: [], False: []}
    for passed, entry in ranked:
        # A heap of the best: a month of scores need not fit into memory.
        heap, (unlabelled, place, key) = found[passed], entry
        worst_first = (not unlabelled, -place, key)
        if len(heap) < _SPARE * size:
            heapq.heappush(heap, worst_first)
        else:
            heapq.heappushpop(heap, worst_first)
    for passed, heap in found.items():
        sides[passed] = list(dict.fromkeys(key for _, _, key in sorted(heap, reverse=True)))
    whole = {passed: _with_texts(store, keys, limit=size) for passed, keys in sides.items()}
    half = size // 2
    failed = whole[False][: max(half, size - len(whole[True]))]
    chosen = [(one, True) for one in whole[True][: size - len(failed)]] + [(one, False) for one in failed]
    said = _labels_of(store)
    anchors = [Anchor.of(stored.trace, said.get(stored.key)) for stored, _ in chosen]
    return Chosen(
        anchors=tuple(anchors),
        labelled=sum(stored.key in truth for stored, _ in chosen),
        passed=sum(passed for _, passed in chosen),
        failed=sum(not passed for _, passed in chosen),
    )


def anchors_of_file(path: Path, spec: JudgeSpec, *, app: str | None = None) -> Chosen:
    """Every trace of a JSONL file (ours, gzip or not), with its labels. Raises OSError, and CheckFailed for a line that
    is no trace: a set that lacks some of what it was meant to hold would be frozen so."""
    anchors, labelled, passed = [], 0, 0
    for line in read_lines(path, app=app):
        if not isinstance(line, Line):
            why = getattr(line, "detail", "") or "holds no trace"
            raise CheckFailed(f"{path}: line {line.number}: {why}")
        labels = _as_labels(line.labels)
        anchors.append(Anchor.of(line.trace, labels))
        labelled += spec.criterion in labels
        passed += labels.get(spec.criterion, False)
    return Chosen(anchors=tuple(anchors), labelled=labelled, passed=passed, failed=labelled - passed)


def _ranked(
    store: Store, where: TraceFilter, spec: JudgeSpec, truth: dict[TraceKey, bool], *, seed: int
) -> Iterator[tuple[bool, tuple[bool, int, TraceKey]]]:
    """(passed, (not labelled, hash, key)) of all candidates."""
    labelled = list(truth)
    for start in range(0, len(labelled), 500):
        for key, stored in store.traces.of(labelled[start : start + 500]).items():
            if _within(stored, where):
                yield truth[key], (False, _place(key, seed), key)
    chosen = ScoreFilter(
        start=where.start, end=where.end, environment=where.environment, app=where.app, judge=spec.name
    )
    for page in store.scores.stream(chosen):
        for score in page:
            if score.outcome.settled and score.key not in truth:
                yield score.outcome.value == "passed", (True, _place(score.key, seed), score.key)


def _with_texts(store: Store, keys: Sequence[TraceKey], *, limit: int) -> list[StoredTrace]:
    """The traces of the first keys that can be judged and differ in content."""
    found: list[StoredTrace] = []
    seen: set[str] = set()
    for start in range(0, len(keys), 500):
        stored_of = store.traces.of(keys[start : start + 500])
        for key in keys[start : start + 500]:
            stored = stored_of.get(key)
            if stored is None or stored.texts_expired or not stored.trace.query or stored.trace.response is None:
                continue
            content = content_hash(stored.trace)
            if content not in seen:
                seen.add(content)
                found.append(stored)
                if len(found) == limit:
                    return found
    return found


def _within(stored: StoredTrace, where: TraceFilter) -> bool:
    trace = stored.trace
    return (
        (where.start is None or trace.event_time >= where.start)
        and (where.end is None or trace.event_time < where.end)
        and where.environment in (None, trace.environment)
        and where.app in (None, trace.app)
    )


def _labels_of(store: Store) -> dict[TraceKey, dict[str, bool]]:
    by_criterion: dict[str, list[Label]] = defaultdict(list)
    for label in store.labels.all():
        by_criterion[label.criterion].append(label)
    said: dict[TraceKey, dict[str, bool]] = defaultdict(dict)
    for criterion, labels in by_criterion.items():
        for key, passed in settled_labels(labels).items():
            said[key][criterion] = passed
    return said


def _as_labels(labels: Sequence[Label]) -> dict[str, bool]:
    return {label.criterion: label.value >= 0.5 for label in labels}


def _place(key: TraceKey, seed: int) -> int:
    text = "\x1f".join((str(seed), *key))
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
