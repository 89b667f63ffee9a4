"""LlamaIndex's own evaluators: their names, what they need, how their scores and replies are to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from tracejudge.judging.specs.kinds import Need

STOCK_PATH: Final = "llama_index.core.evaluation"

STOCK_NEEDS: Final[Mapping[str, tuple[Need, ...]]] = {
    "FaithfulnessEvaluator": ("response", "context"),
    "RelevancyEvaluator": ("query", "response", "context"),
    "ContextRelevancyEvaluator": ("query", "context"),
    "AnswerRelevancyEvaluator": ("query", "response"),
    "CorrectnessEvaluator": ("query", "response", "reference"),
    "GuidelineEvaluator": ("query", "response"),
    "SemanticSimilarityEvaluator": ("response", "reference"),
}
"""What LlamaIndex's own evaluators need in order to say something sensible (they do not check it themselves). Its
PairwiseComparisonEvaluator has no place in a panel, which has one response a trace: see the kind `pairwise`."""

STOCK_SCALES: Final[Mapping[str, tuple[float, float]]] = {"CorrectnessEvaluator": (1.0, 5.0)}
"""Worst and best score of LlamaIndex's own evaluators where they are not 0 and 1."""

STOCK_THRESHOLDS: Final[Mapping[str, float]] = {"CorrectnessEvaluator": 0.75}
"""The least score that passes, mapped onto [0, 1], where it is not 0.5 (4 of 1 to 5)."""

StockReading = Literal["yes_no", "number", "passing", "result"]

STOCK_READINGS: Final[Mapping[str, StockReading]] = {
    "FaithfulnessEvaluator": "yes_no",
    "RelevancyEvaluator": "yes_no",
    "CorrectnessEvaluator": "number",
    "GuidelineEvaluator": "passing",
    "AnswerRelevancyEvaluator": "result",
    "ContextRelevancyEvaluator": "result",
}
"""How we read the reply behind their result: they pass on any text with "yes" in it, raise on a score without a second
line, read "[RESULT] 10" as 1."""

STOCK_RESULT_TOP: Final[Mapping[str, float]] = {"AnswerRelevancyEvaluator": 2.0, "ContextRelevancyEvaluator": 4.0}
"""The most points that their prompts give; their scores are points / this."""

STOCK_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "FaithfulnessEvaluator": ("query_str", "context_str"),
    "RelevancyEvaluator": ("query_str", "context_str"),
    "ContextRelevancyEvaluator": ("query_str", "context_str"),
    "AnswerRelevancyEvaluator": ("query", "response"),
    "CorrectnessEvaluator": ("generated_answer", "reference_answer"),
    "GuidelineEvaluator": ("response", "guidelines"),
}
"""The variables without which an `eval_template` of theirs shows the model nothing to judge. They do not check it
themselves. FaithfulnessEvaluator's query_str is the response."""

STOCK_EMBEDDERS: Final = frozenset({"SemanticSimilarityEvaluator"})
"""LlamaIndex's evaluators that take no LLM; they call the embedding model of its global Settings, which may cost."""

STOCK_CODE: Final = 2
"""Raised when we read a stock evaluator's result otherwise than before; part of their JudgeIds."""
