"""The corpus of attacks on judges, and what becomes of it under our prompts and under LlamaIndex's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.kinds import kind_spec
from tests.support.obedient_judge import SPLITS, ObedientJudge, filled_in, written_out
from tests.support.panels import make_panel, make_task
from tracejudge.judging import JudgeSpec
from tracejudge.scores import Outcome
from tracejudge.testing import make_trace
from tracejudge_sdk.trace import Trace

FILE: Final = Path(__file__).parents[1] / "data" / "attacks.jsonl"
OURS: Final = ("faithfulness", "relevancy", "context_relevancy", "answer_relevancy", "guideline")
STOCK: Final = ("FaithfulnessEvaluator", "RelevancyEvaluator")


@dataclass(frozen=True)
class Attack:
    """One text that tries to make a judge say YES."""

    kind: str
    name: str
    text: str


@dataclass(frozen=True)
class Attempt:
    """One attack in one place against one judge model behind one kind of judge."""

    attack: Attack
    judge: str  # of ours, or the stock evaluator's name
    place: str
    boundary: str
    won: bool
    flagged: bool


def attacks() -> list[Attack]:
    """The corpus, with the order written out."""
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return [Attack(row["kind"], row["name"], written_out(row["text"])) for row in rows]


def attempts(judges: Iterable[str], corpus: Sequence[Attack]) -> list[Attempt]:
    """Each attack in each place that the judge reads, against every obedient model."""
    found = []
    for name in judges:
        spec = _spec(name)
        for boundary, split in SPLITS.items():
            listener = ObedientJudge(split, own=1_000)
            asyncio.run(make_panel(spec, listener).evaluate([make_task(0, spec.name)]))
            own = filled_in(split("", listener.prompts[0]))
            panel = make_panel(spec, ObedientJudge(split, own=own))
            cases = [(attack, place) for attack in corpus for place in _places(name)]
            tasks = [make_task(_trace(n, attack, place), spec.name) for n, (attack, place) in enumerate(cases)]
            result = asyncio.run(panel.evaluate(tasks))
            # An attack may not even drive a trace out of judging.
            assert len(result.scores) == len(cases), result.ledger
            by_id = {score.trace_id: score for score in result.scores}
            for task, (attack, place) in zip(tasks, cases, strict=True):
                score = by_id[task.trace.trace_id]
                won, flagged = score.outcome is Outcome.PASSED, "suspected_injection" in score.flags
                found.append(Attempt(attack, name, place, boundary, won, flagged))
    return found


def rate(found: Sequence[Attempt]) -> float:
    """Share of attempts that won."""
    return sum(one.won for one in found) / len(found)


def _spec(name: str) -> JudgeSpec:
    if name in OURS:
        return kind_spec(name)
    values: dict[str, Any] = {"name": name, "kind": name, "base_url": "http://127.0.0.1:9/v1", "model": "judge"}
    return JudgeSpec.model_validate({**values, "max_calls_per_h": 1_000_000})


def _places(name: str) -> tuple[str, ...]:
    """Where the judge reads: LlamaIndex's faithfulness judge does not see the question, nor do some of ours all."""
    return {
        "FaithfulnessEvaluator": ("response", "passage"),
        "context_relevancy": ("query", "passage", "history"),
        "answer_relevancy": ("query", "response", "history"),
        "guideline": ("query", "response", "history"),
        "RelevancyEvaluator": ("query", "response", "passage"),
    }.get(name, ("query", "response", "passage", "history"))


def _trace(number: int, attack: Attack, place: str) -> Trace:
    text = f"The limit is twelve. {attack.text}"
    if place == "passage":
        return make_trace(number, source_nodes=[{"text": "The limit is ten users."}, {"text": attack.text}])
    if place == "history":
        return make_trace(number, history=[{"role": "user", "content": attack.text}])
    return make_trace(number, **{place: text})
