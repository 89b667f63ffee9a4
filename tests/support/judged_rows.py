"""Judged traces as the store gives them, made up: what a test says about a period, and chance for the rest."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tracejudge.store import JudgedRow
from tracejudge.testing.builders import START

SHARES = {"billing": 0.2, "shipping": 0.5, "returns": 0.3}


def period(
    n: int,
    rates: Mapping[str, float] | float,
    *,
    seed: int,
    shares: Mapping[str, float] = SHARES,
    irrelevant: float = 0.05,
    rate_if_irrelevant: float | None = None,
    relevancy: bool = True,
    scores: bool = True,
    **fields: str,
) -> list[JudgedRow]:
    """`n` rows, a minute apart. A category has its pass rate; of `irrelevant` passages `rate_if_irrelevant`, where one
    is given. Returns are judged at half the rate of the rest. `fields` are the same for all."""
    rng = random.Random(seed)
    rows = []
    for number in range(n):
        category = rng.choices(list(shares), weights=list(shares.values()))[0]
        relevant = rng.random() >= irrelevant
        rate = rates if isinstance(rates, float) else rates[category]
        if not relevant and rate_if_irrelevant is not None:
            rate = rate_if_irrelevant
        passed = rng.random() < rate
        rows.append(
            row(
                number + 100_000 * seed,
                passed=passed,
                weight=2.0 if category == "returns" else 1.0,
                fields={"category": category, "tags.tenant": rng.choice(["acme", "globex"]), **fields},
                signals={"retrieval_score_max": rng.gauss(0.8 if relevant else 0.4, 0.05)} if scores else {},
                others={"context_relevancy": relevant} if relevancy else {},
            )
        )
    return rows


def row(number: int, *, passed: bool = True, **fields: Any) -> JudgedRow:
    """One row."""
    values: dict[str, Any] = {
        "trace_id": f"t-{number}",
        "event_time": START + timedelta(minutes=number % 100_000),
        "score": 1.0 if passed else 0.0,
        "weight": 1.0,
        "content_hash": f"hash-{number}",
    }
    return JudgedRow(passed=passed, **{**values, **fields})
