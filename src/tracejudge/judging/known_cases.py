"""A handful of plain cases with a right answer for each built-in kind: what a judge that works gets right.

They find a judge that is set up wrong (a prompt that asks for the contrary, a model that answers in no shape), and say
nothing about how good it is on real traffic: that needs human labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge_sdk.trace import Trace

_AT: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class KnownCase:
    """One trace, and whether a judge of its criterion passes it."""

    name: str
    passes: bool
    trace: Trace


_SHOP: Final[dict[str, Any]] = {
    "query": "Until when can I return a pair of shoes?",
    "source_nodes": [
        {"node_id": "returns", "text": "Shoes can be returned within 30 days of delivery, unworn and in their box."},
        {"node_id": "hours", "text": "Our shop in Turin is open from nine to six, except on Sundays."},
    ],
}
_RIGHT: Final = "You can return shoes within 30 days of delivery, if they are unworn and in their box."
_WRONG: Final = "You can return shoes within 90 days, and we pay for the postage."
_ELSEWHERE: Final = "The shop in Turin is closed on Sundays."
_REFUSES: Final = "I'm sorry, I don't have that information."
_OFF_CONTEXT: Final[dict[str, Any]] = {"source_nodes": [_SHOP["source_nodes"][1]]}
_REFERENCE: Final[dict[str, Any]] = {"reference": "Within 30 days of delivery, unworn and in the box."}

_CASES: Final[Mapping[str, tuple[tuple[str, bool, dict[str, Any]], ...]]] = {
    "faithfulness": (
        ("everything stands in the passages", True, {"response": _RIGHT}),
        ("another sentence of the passages", True, {"response": _ELSEWHERE}),
        ("another number and an addition", False, {"response": _WRONG}),
        ("nothing of it stands there", False, {"response": "Shoes are made of leather in a factory in Porto."}),
    ),
    "relevancy": (
        ("answers from the passages", True, {"response": _RIGHT}),
        ("answers another question", False, {"response": _ELSEWHERE}),
        ("contradicts the passages", False, {"response": _WRONG}),
    ),
    "context_relevancy": (
        ("the answer stands there", True, {"response": _RIGHT}),
        ("only opening hours stand there", False, {"response": _RIGHT, **_OFF_CONTEXT}),
    ),
    "answer_relevancy": (
        ("addresses the question", True, {"response": _RIGHT}),
        ("wrong, but addresses it", True, {"response": _WRONG}),
        ("answers another question", False, {"response": _ELSEWHERE}),
        ("declines", False, {"response": _REFUSES}),
    ),
    "correctness": (
        ("says what the reference says", True, {"response": _RIGHT, **_REFERENCE}),
        ("another number", False, {"response": _WRONG, **_REFERENCE}),
        ("answers another question", False, {"response": _ELSEWHERE, **_REFERENCE}),
    ),
    "preference": (
        ("right, against a wrong answer", True, {"response": _RIGHT, "reference": _WRONG}),
        ("wrong, against a right answer", False, {"response": _ELSEWHERE, "reference": _RIGHT}),
    ),
    "similarity": (
        ("the same text", True, {"response": _RIGHT, "reference": _RIGHT}),
        ("about something else", False, {"response": "Paris lies on the Seine.", "reference": _RIGHT}),
    ),
    "hit_rate": (
        ("found", True, {"response": _RIGHT, "expected_ids": ["returns"]}),
        ("not found", False, {"response": _RIGHT, "expected_ids": ["postage"]}),
    ),
    "mrr": (
        ("at the first place", True, {"response": _RIGHT, "expected_ids": ["returns"]}),
        ("not found", False, {"response": _RIGHT, "expected_ids": ["postage"]}),
    ),
    "refusal": (
        ("answers", True, {"response": _RIGHT}),
        ("declines", False, {"response": _REFUSES}),
    ),
}
"""By the kind's own criterion: (name, passes, fields of the trace)."""


def known_cases(spec: JudgeSpec) -> tuple[KnownCase, ...]:
    """The cases for a judge; none for criteria that only its owner knows (guidelines, patterns, schemas, limits).

    A class of one's own is tried on those of the criterion that it `measures`.
    """
    kind = spec.built_in
    if kind is not None and kind.options is not None and kind.measures not in _CASES:
        return ()
    found = _CASES.get(spec.criterion) or _CASES.get(kind.measures if kind is not None else "", ())
    return tuple(
        KnownCase(
            name,
            passes,
            Trace.model_validate(
                {
                    "trace_id": f"known-{spec.criterion}-{number}",
                    "app": "known-cases",
                    "event_time": _AT,
                    **_SHOP,
                    **fields,
                }
            ),
        )
        for number, (name, passes, fields) in enumerate(found, start=1)
    )
