"""Stored traffic whose quality falls at a known time, in a way that a test chooses: traces, signals and verdicts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tracejudge.scores import JudgeId, Outcome, Score
from tracejudge.signals import compute_signals
from tracejudge.store import Store, StoredTrace
from tracejudge.testing import make_score, make_trace

CATEGORIES = {"billing": 0.4, "shipping": 0.35, "returns": 0.25}


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What one period is like: pass rates by category, shares of categories, and fields of its traces."""

    rates: Mapping[str, float]
    shares: Mapping[str, float] = field(default_factory=lambda: CATEGORIES)
    version: str = "v41"
    irrelevant: Mapping[str, float] = field(default_factory=dict)  # share of traces with irrelevant passages
    rate_if_irrelevant: float = 0.3


def fill(
    store: Store,
    *,
    start: datetime,
    periods: list[tuple[int, Traffic]],
    every_s: float = 60.0,
    seed: int = 7,
    first: int = 0,
    relevancy: bool = True,
    edit: Callable[[int, dict[str, Any]], None] = lambda number, fields: None,
) -> list[Score]:
    """Stores one trace and its verdicts every `every_s` seconds from `start` on, `n` of each (n, traffic) in turn.

    Traces are numbered from `first` on. The judge is "faithfulness"; with `relevancy` a judge "context_relevancy" looks
    at the same traces. Gives the scores of the first. `edit` may change the fields of a trace.
    """
    rng = random.Random(seed)
    traces, scores = [], []
    number = first
    for count, traffic in periods:
        for _ in range(count):
            at = start + timedelta(seconds=every_s * (number - first))
            category = rng.choices(list(traffic.shares), weights=list(traffic.shares.values()))[0]
            relevant = rng.random() >= traffic.irrelevant.get(category, 0.05)
            rate = traffic.rates[category] if relevant else traffic.rate_if_irrelevant
            passed = rng.random() < rate
            score = round(rng.uniform(0.7, 1.0) if passed else rng.uniform(0.0, 0.4), 3)
            # Returns are judged at half the rate of the rest and weigh twice.
            probability = 0.5 if category == "returns" else 1.0
            fields: dict[str, Any] = {
                "event_time": at,
                "version": traffic.version,
                "category": category,
                "model": "gpt-x",
                "tags": {"tenant": rng.choice(["acme", "globex", "initech"]), "request": f"r{number}"},
                "source_nodes": [
                    {"node_id": f"n-{number}", "text": f"Plan {number} ends in March.",
                     "score": round(min(1.0, max(0.0, rng.gauss(0.8 if relevant else 0.45, 0.08))), 4)}
                ],
            }  # fmt: skip
            edit(number, fields)
            trace = make_trace(number, **fields)
            traces.append(StoredTrace(trace=trace, signals=compute_signals(trace).as_dict(), ingested_at=at))
            common: dict[str, Any] = {
                "event_time": at,
                "judged_at": at + timedelta(seconds=20),
                "version": trace.version,
                "category": trace.category or "",
                "inclusion_probability": probability,
                "content_hash": f"hash-{number}",
            }
            common["trace_id"] = trace.trace_id
            scores.append(verdict(number, "faithfulness", passed=passed, score=score, **common))
            if relevancy:
                scores.append(verdict(number, "context_relevancy", passed=relevant, score=float(relevant), **common))
            number += 1
    store.traces.insert(traces)
    store.scores.insert(scores)
    return [score for score in scores if score.judge_name == "faithfulness"]


def verdict(number: int, judge: str, *, passed: bool, score: float, **fields: Any) -> Score:
    """A verdict of a judge by name."""
    return make_score(
        number,
        judge_name=judge,
        judge_id=JudgeId(f"{judge}@000000000000"),
        outcome=Outcome.PASSED if passed else Outcome.FAILED,
        score=score,
        **fields,
    )
