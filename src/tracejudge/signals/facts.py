"""Cheap facts about a trace that cost no model: what sampling may choose by and people may slice by.

Work is bounded whatever the texts, so that a passage of megabytes costs what a page costs: language and refusal look at
the first `LANGUAGE_CHARS` and `REFUSAL_CHARS` characters, overlap at the first `OVERLAP_RESPONSE_CHARS` of the response
and the first `OVERLAP_CONTEXT_CHARS` of the passages in their order. Lengths and scores are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Final

from tracejudge.quick import made_quickly
from tracejudge.signals.first_look import first_look
from tracejudge.signals.language import guess_language
from tracejudge.signals.overlap import lexical_overlap
from tracejudge.signals.refusal import is_refusal
from tracejudge.signals.stems import cut
from tracejudge_sdk.trace import Trace

OVERLAP_RESPONSE_CHARS: Final = 4_000
OVERLAP_CONTEXT_CHARS: Final = 16_000


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Facts of one trace. None and "" mean "nothing to say", never zero.

    Lengths are in characters. `language` is a guess at the response's, or where that says nothing the query's, language
    ("" when unsure); `refusal` a match in a list of phrases; `lexical_overlap` the share of the response's words that
    the passages hold: none of the three is a verdict. `has_context` is true when a passage has text to judge by.
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
        return dict(zip(_NAMES, _VALUES(self), strict=True))


_NAMES: Final = tuple(field.name for field in fields(Signals))
_VALUES: Final = attrgetter(*_NAMES)


def compute_signals(trace: Trace) -> Signals:
    """The signals of `trace`. Pure; raises nothing on any text."""
    nodes = trace.source_nodes
    response = trace.response or ""
    texts = [text for node in nodes if (text := node.text)]
    passages = [text for text in texts if not text.isspace()]
    compared = response[:OVERLAP_RESPONSE_CHARS]
    pieces = cut(compared)
    seen = first_look(response, pieces)
    scores = [score for node in nodes if (score := node.score) is not None]
    return Signals(
        query_chars=len(trace.query),
        response_chars=len(response),
        context_chars=sum(map(len, texts)),
        node_count=len(nodes),
        text_node_count=len(passages),
        language="en" if seen.english else guess_language(response) or guess_language(trace.query),
        refusal=not seen.no_refusal and is_refusal(response),
        lexical_overlap=lexical_overlap(compared, _first_chars(passages, OVERLAP_CONTEXT_CHARS), pieces),
        retrieval_score_min=min(scores) if scores else None,
        retrieval_score_median=_median(scores) if scores else None,
        retrieval_score_max=max(scores) if scores else None,
        has_context=bool(passages),
    )


def _first_chars(texts: list[str], limit: int) -> list[str]:
    if sum(map(len, texts)) <= limit:
        return texts
    found = []
    for text in texts:
        if limit <= 0:
            break
        found.append(text[:limit])
        limit -= len(text)
    return found


def _median(scores: list[float]) -> float:
    ordered = sorted(scores)
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    # Halved before they are added: the sum of two of the greatest floats is no float any more.
    return upper if lower == upper else lower / 2 + upper / 2
