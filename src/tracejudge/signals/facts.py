"""Cheap facts about a trace that cost no model: what sampling may choose by and people may slice by.

Work is bounded whatever the text: language and refusal look at the first `LANGUAGE_CHARS` and `REFUSAL_CHARS`
characters, overlap at the first `OVERLAP_RESPONSE_CHARS` of the response and the first `OVERLAP_CONTEXT_CHARS` of the
passages in their order. Lengths are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from tracejudge_sdk.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Facts of one trace. None and "" mean "nothing to say", never zero.

    Lengths are in characters. `language` is a guess from scripts and stop words ("" when unsure), `refusal` a match in
    a documented list of phrases; neither is a verdict.
    """

    query_chars: int = 0
    response_chars: int = 0
    context_chars: int = 0
    node_count: int = 0
    text_node_count: int = 0
    language: str = ""
    refusal: bool = False
    lexical_overlap: float | None = None
    retrieval_score_min: float | None = None
    retrieval_score_median: float | None = None
    retrieval_score_max: float | None = None
    has_context: bool = False

    def as_dict(self) -> dict[str, int | float | str | bool | None]:
        """Name and value of every signal, in the order of declaration, ready for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def compute_signals(trace: Trace) -> Signals:
    """The signals of `trace`. Pure; raises nothing on any text."""
    return Signals(
        query_chars=len(trace.query),
        response_chars=len(trace.response or ""),
        context_chars=sum(len(node.text or "") for node in trace.source_nodes),
        node_count=len(trace.source_nodes),
    )
