"""The judges that come with the package, as plain facts that load no LLM library.

A kind's `code` is kept by hand: whoever changes what an evaluator answers raises it, so that its JudgeIds change with
its behaviour and with nothing else. The golden transcripts of the tests fail when behaviour changes without `code`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tracejudge.judging.verdict import PARSER

Need = Literal["query", "response", "context", "reference"]
"""What a judge cannot do without; a trace that lacks it is not_applicable. `context` is a passage with text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of judge: where its evaluator lives, what it needs, and what pins its behaviour."""

    path: str  # "package.module:Class"
    measures: str  # the criterion of human labels that its verdict can be compared with
    needs: tuple[Need, ...]
    code: int
    parser: int  # version of the reading of replies; 0 where there is no reply
    combination: str  # how several verdicts on one trace become one
    heuristic: bool
    calls_model: bool
    default_threshold: float | None  # None: the verdict is yes or no, without a scale
    prompt: str | None = None  # name of the prompt file


BUILT_IN: Final[Mapping[str, Kind]] = {
    "lexical": Kind(
        path="tracejudge.judging.evaluators.lexical:LexicalEvaluator",
        measures="faithfulness",
        needs=("response", "context"),
        code=1,
        parser=0,
        combination="single",
        heuristic=True,
        calls_model=False,
        default_threshold=0.5,
    ),
    "faithfulness": Kind(
        path="tracejudge.judging.evaluators.faithfulness:FaithfulnessEvaluator",
        measures="faithfulness",
        needs=("response", "context"),
        code=1,
        parser=PARSER,
        combination="single",
        heuristic=False,
        calls_model=True,
        default_threshold=None,
        prompt="faithfulness",
    ),
}

STOCK_NEEDS: Final[Mapping[str, tuple[Need, ...]]] = {
    "FaithfulnessEvaluator": ("response", "context"),
    "RelevancyEvaluator": ("query", "response", "context"),
    "ContextRelevancyEvaluator": ("query", "context"),
    "AnswerRelevancyEvaluator": ("query", "response"),
    "CorrectnessEvaluator": ("query", "response", "reference"),
    "GuidelineEvaluator": ("query", "response"),
    "SemanticSimilarityEvaluator": ("response", "reference"),
}
"""What LlamaIndex's own evaluators need in order to say something sensible (they do not check it themselves)."""

STOCK_SCALES: Final[Mapping[str, tuple[float, float]]] = {"CorrectnessEvaluator": (1.0, 5.0)}
"""Worst and best score of LlamaIndex's own evaluators where they are not 0 and 1."""

STOCK_YES_NO: Final = frozenset({"FaithfulnessEvaluator", "RelevancyEvaluator"})
"""LlamaIndex's evaluators that pass on any reply with "yes" somewhere in it: we read their replies by our rules."""

STOCK_EMBEDDERS: Final = frozenset({"SemanticSimilarityEvaluator"})
"""LlamaIndex's evaluators that take no LLM; they call the embedding model of its global Settings, which may cost."""
