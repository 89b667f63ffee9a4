"""The judges that come with the package, as plain facts that load no LLM library.

A kind's `code` is kept by hand: whoever changes what an evaluator answers raises it, so that its JudgeIds change with
its behaviour and with nothing else. The golden transcripts of the tests fail when behaviour changes without `code`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import BaseModel

from tracejudge.judging.replies.verdict import PARSER
from tracejudge.judging.specs.options import (
    EmbeddingOptions,
    GuidelineOptions,
    JsonSchemaOptions,
    LatencyOptions,
    LengthOptions,
    RankOptions,
    RegexOptions,
)
from tracejudge.judging.specs.shapes import BETTER, BROKEN, REASON, SCORE, UNSUPPORTED, Shape

Need = Literal["query", "response", "context", "reference", "expected_ids", "latency_ms"]
"""What a judge cannot do without; a trace that lacks it is not_applicable. `context` is a passage with text."""

Parts = Literal["whole", "all", "any", "carry"]
"""How verdicts on parts of what does not fit the judge's window become one.

whole: it is not divided; what does not fit is invalid / bad_request
all: every part must pass; asking ends with the first that fails
any: one part must pass; asking ends with the first that passes
carry: what the first part of the passages does not support is put to the next part, and so on; asking ends when nothing
is left (pass) or with the last part (fail). Where the judge named no statement, or as many as it may, the whole text
goes on.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of judge: where its evaluator lives, what it needs, and what pins its behaviour."""

    path: str  # "package.module:Class"
    measures: str  # the criterion of human labels that its verdict can be compared with
    needs: tuple[Need, ...]
    code: int = 1
    parser: int = 0  # version of the reading of replies; 0 where there is no reply
    heuristic: bool = False
    default_threshold: float | None = None  # None: the verdict is yes or no, without a scale
    options: type[BaseModel] | None = None

    # Of judges that ask a model:
    prompt: str | None = None  # name of the prompt file
    shape: Shape | None = None  # of the reply
    variables: tuple[str, ...] = ()  # that a prompt may name
    required_variables: tuple[str, ...] = ()  # that it must name
    aliases: Mapping[str, str] = field(default_factory=dict)  # LlamaIndex's names for them
    response_parts: Parts = "whole"
    passage_parts: Parts = "whole"
    calls: int = 1  # for a trace that fits the window

    embeds: bool = False  # calls an embedding model, whose calls nobody but itself sees

    @property
    def calls_model(self) -> bool:
        return self.prompt is not None or self.embeds

    @property
    def asks_model(self) -> bool:
        """True for judges that put questions to a model which we call ourselves."""
        return self.prompt is not None

    @property
    def combination(self) -> str:
        """How several verdicts on one trace become one: part of the JudgeId."""
        if self.prompt is None:
            return "single"
        rule = f"response:{self.response_parts},passages:{self.passage_parts}"
        return f"{rule},orders:2" if self.calls == 2 else rule


_EVALUATORS: Final = "tracejudge.judging.evaluators"
_COMMON_ALIASES: Final = {
    "query_str": "query",
    "context_str": "context",
    "response_str": "response",
    "generated_answer": "response",
    "reference_answer": "reference",
}

BUILT_IN: Final[Mapping[str, Kind]] = {
    "lexical": Kind(
        path=f"{_EVALUATORS}.lexical:LexicalEvaluator",
        measures="faithfulness",
        needs=("response", "context"),
        heuristic=True,
        default_threshold=0.5,
    ),
    "faithfulness": Kind(
        path=f"{_EVALUATORS}.faithfulness:FaithfulnessEvaluator",
        measures="faithfulness",
        needs=("response", "context"),
        code=2,
        parser=PARSER,
        prompt="faithfulness",
        shape=UNSUPPORTED,
        variables=("query", "response", "context", "reference"),
        required_variables=("response", "context"),
        # LlamaIndex's faithfulness judge calls the statement under test its query, and here that is the response.
        aliases={"query_str": "response", "context_str": "context", "response_str": "response"},
        response_parts="all",
        passage_parts="carry",
    ),
    "relevancy": Kind(
        path=f"{_EVALUATORS}.relevancy:RelevancyEvaluator",
        measures="relevancy",
        needs=("query", "response", "context"),
        parser=PARSER,
        prompt="relevancy",
        shape=REASON,
        variables=("query", "response", "context"),
        required_variables=("query", "response", "context"),
        aliases=_COMMON_ALIASES,
        response_parts="all",
        passage_parts="any",
    ),
    "context_relevancy": Kind(
        path=f"{_EVALUATORS}.relevancy:ContextRelevancyEvaluator",
        measures="context_relevancy",
        needs=("query", "context"),
        parser=PARSER,
        prompt="context_relevancy",
        shape=REASON,
        variables=("query", "context"),
        required_variables=("query", "context"),
        aliases=_COMMON_ALIASES,
        passage_parts="any",
    ),
    "answer_relevancy": Kind(
        path=f"{_EVALUATORS}.relevancy:AnswerRelevancyEvaluator",
        measures="answer_relevancy",
        needs=("query", "response"),
        parser=PARSER,
        prompt="answer_relevancy",
        shape=REASON,
        variables=("query", "response"),
        required_variables=("query", "response"),
        aliases={**_COMMON_ALIASES, "response": "response"},
        response_parts="any",
    ),
    "correctness": Kind(
        path=f"{_EVALUATORS}.correctness:CorrectnessEvaluator",
        measures="correctness",
        needs=("query", "response", "reference"),
        parser=PARSER,
        default_threshold=0.75,  # 4 of 5
        prompt="correctness",
        shape=SCORE,
        variables=("query", "response", "reference"),
        required_variables=("query", "response", "reference"),
        aliases=_COMMON_ALIASES,
    ),
    "guideline": Kind(
        path=f"{_EVALUATORS}.guideline:GuidelineEvaluator",
        measures="",
        needs=("response",),
        parser=PARSER,
        options=GuidelineOptions,
        prompt="guideline",
        shape=BROKEN,
        variables=("query", "response", "context", "reference", "guidelines"),
        required_variables=("response", "guidelines"),
        aliases=_COMMON_ALIASES,
        response_parts="all",
    ),
    "pairwise": Kind(
        path=f"{_EVALUATORS}.pairwise:PairwiseEvaluator",
        measures="preference",
        needs=("query", "response", "reference"),
        parser=PARSER,
        default_threshold=0.5,  # not worse
        prompt="pairwise",
        shape=BETTER,
        variables=("query", "answer_a", "answer_b"),
        required_variables=("query", "answer_a", "answer_b"),
        aliases={"query_str": "query", "answer_1": "answer_a", "answer_2": "answer_b"},
        calls=2,
    ),
    "semantic_similarity": Kind(
        path=f"{_EVALUATORS}.similarity:SemanticSimilarityEvaluator",
        measures="similarity",
        needs=("response", "reference"),
        default_threshold=0.8,
        options=EmbeddingOptions,
        embeds=True,
    ),
    "hit_rate": Kind(
        path=f"{_EVALUATORS}.retrieval:HitRateEvaluator",
        measures="hit_rate",
        needs=("expected_ids",),
        options=RankOptions,
    ),
    "mrr": Kind(
        path=f"{_EVALUATORS}.retrieval:MRREvaluator",
        measures="mrr",
        needs=("expected_ids",),
        default_threshold=0.5,  # among the first two
        options=RankOptions,
    ),
    "latency": Kind(
        path=f"{_EVALUATORS}.checks:LatencyEvaluator",
        measures="latency",
        needs=("latency_ms",),
        options=LatencyOptions,
    ),
    "refusal": Kind(
        path=f"{_EVALUATORS}.checks:RefusalEvaluator",
        measures="refusal",
        needs=("response",),
        heuristic=True,
    ),
    "length": Kind(
        path=f"{_EVALUATORS}.checks:LengthEvaluator",
        measures="length",
        needs=("response",),
        options=LengthOptions,
    ),
    "regex": Kind(
        path=f"{_EVALUATORS}.checks:RegexEvaluator",
        code=2,
        measures="",
        needs=("response",),
        options=RegexOptions,
    ),
    "json_schema": Kind(
        path=f"{_EVALUATORS}.json_schema:JsonSchemaEvaluator",
        measures="json_schema",
        needs=("response",),
        options=JsonSchemaOptions,
    ),
}
