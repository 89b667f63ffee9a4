"""Cheap facts about a trace that cost no model: what sampling may choose by and people may slice by.

Work is bounded whatever the texts, so that a passage of megabytes costs what a page costs: language and refusal look at
the first `LANGUAGE_CHARS` and `REFUSAL_CHARS` characters, overlap at the first `OVERLAP_RESPONSE_CHARS` of the response
and the first `OVERLAP_CONTEXT_CHARS` of the passages in their order. Lengths and scores are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from tracejudge.quick import made_quickly
from tracejudge.signals.language import guess_language
from tracejudge.signals.refusal import is_refusal
from tracejudge_sdk.trace import Trace

if TYPE_CHECKING:
    from tracejudge.signals.word_signals import WordSignals

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
    """The signals of `trace`. Pure; raises nothing on any text. For many of them `signals_of` is quicker."""
    return signals_of([trace])[0]


def signals_of(traces: Sequence[Trace]) -> list[Signals]:
    """The signals of each trace, as `compute_signals` gives them."""
    # Here, since it takes numpy, a tenth of a second to import, and most commands know signals by their names alone.
    from tracejudge.signals.word_signals import WORDS

    found: list[Signals] = []
    for some in _pieces([_texts(trace) for trace in traces]):
        seen = WORDS.signals([(one.compared, one.compared_with) for one in some])
        found += [_signals(one, words) for one, words in zip(some, seen, strict=True)]
    return found


class _Texts(NamedTuple):
    """A trace, with what of it is looked at."""

    trace: Trace
    context_chars: int
    passages: list[str]  # those that are more than blanks
    scores: list[float]
    compared: str
    compared_with: Sequence[str]


def _texts(trace: Trace) -> _Texts:
    chars = 0
    passages = []
    scores = []
    for node in trace.source_nodes:
        text, score = node.text, node.score
        if text:
            chars += len(text)
            if not text.isspace():
                passages.append(text)
        if score is not None:
            scores.append(score)
    response = trace.response or ""
    if len(response) > OVERLAP_RESPONSE_CHARS:
        response = response[:OVERLAP_RESPONSE_CHARS]
    first = passages if chars <= OVERLAP_CONTEXT_CHARS else _first_chars(passages, OVERLAP_CONTEXT_CHARS)
    return _Texts(trace, chars, passages, scores, response, first)


def _signals(texts: _Texts, words: WordSignals) -> Signals:
    trace, chars, passages, scores, _, _ = texts
    response = trace.response or ""
    english, no_refusal, overlap = words
    return Signals(
        query_chars=len(trace.query),
        response_chars=len(response),
        context_chars=chars,
        node_count=len(trace.source_nodes),
        text_node_count=len(passages),
        language="en" if english else guess_language(response) or guess_language(trace.query),
        refusal=not no_refusal and is_refusal(response),
        lexical_overlap=overlap,
        retrieval_score_min=min(scores) if scores else None,
        retrieval_score_median=_median(scores) if scores else None,
        retrieval_score_max=max(scores) if scores else None,
        has_context=bool(passages),
    )


def _pieces(texts: Sequence[_Texts]) -> Iterator[Sequence[_Texts]]:
    """Splits texts into pieces that are looked up together: few enough for a core's cache to hold what is made of
    them."""
    begin = chars = 0
    for at, one in enumerate(texts):
        if at - begin >= _TOGETHER or chars >= _TOGETHER_CHARS:
            yield texts[begin:at]
            begin, chars = at, 0
        chars += len(one.compared) + min(one.context_chars, OVERLAP_CONTEXT_CHARS)
    if begin < len(texts):
        yield texts[begin:]


_TOGETHER: Final = 256
_TOGETHER_CHARS: Final = 250_000


def _first_chars(texts: list[str], limit: int) -> list[str]:
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
