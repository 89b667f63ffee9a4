"""Signals are computed for any text: hostile, odd or huge."""

from __future__ import annotations

import json
import math
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tracejudge.sampling import Condition, SamplingPolicy, sample
from tracejudge.signals import compute_signals, signals_of
from tracejudge.signals.language import guess_language
from tracejudge.signals.refusal import REFUSAL_PHRASES, is_refusal
from tracejudge.signals.stems import tokens
from tracejudge.signals.word_signals import WORDS
from tracejudge.testing import make_trace

anything = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    st.text(st.sampled_from("aA 0.'’*\n\t\u202e\u0000\u0301\u200d漢かحא🙂ß\ufeff"), max_size=200),
    st.builds(
        lambda piece, times: piece * times,
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.integers(0, 2000),
    ),
)
nodes = st.lists(
    st.fixed_dictionaries(
        {"text": st.none() | anything, "score": st.none() | st.floats(allow_nan=False, allow_infinity=False)}
    ),
    max_size=4,
)


@settings(deadline=None)
@given(anything, st.none() | anything, nodes)
@example("", None, [{"text": None, "score": 1.7e308}, {"text": None, "score": 1.6e308}])
def test_signals_of_any_text_are_finite_and_in_range(
    query: str, response: str | None, source_nodes: list[dict[str, object]]
) -> None:
    trace = make_trace(query=query, response=response, source_nodes=source_nodes)
    signals = compute_signals(trace)
    assert signals == compute_signals(trace)
    assert json.loads(json.dumps(signals.as_dict(), allow_nan=False)) == signals.as_dict()
    assert signals.query_chars == len(query)
    assert signals.has_context == (signals.text_node_count > 0)
    assert signals.text_node_count <= signals.node_count == len(source_nodes)
    assert signals.lexical_overlap is None or 0.0 <= signals.lexical_overlap <= 1.0
    if signals.retrieval_score_median is not None:
        assert signals.retrieval_score_min is not None
        assert signals.retrieval_score_max is not None
        assert math.isfinite(signals.retrieval_score_median)
        assert signals.retrieval_score_min <= signals.retrieval_score_median <= signals.retrieval_score_max


@settings(deadline=None)
@given(anything, anything, anything)
def test_conditions_hold_or_not_on_any_text_and_never_raise(query: str, tag: str, pattern: str) -> None:
    trace = make_trace(query=query, tags={"x": tag})
    signals = compute_signals(trace)
    conditions = [
        {"field": "tags.x", "above": 1.0},
        {"field": "tags.x", "below": 1.0},
        {"field": "query", "matches": pattern or "*"},
        {"field": "query", "contains": pattern or "x"},
    ]
    for condition in conditions:
        Condition.model_validate(condition).holds(trace, signals)
    policy = SamplingPolicy.model_validate(
        {"rules": [{"name": str(n), "when": when, "never": True} for n, when in enumerate(conditions)]}
    )
    assert sample(trace, signals, policy, ["a"]).decisions["a"].inclusion_probability in (0.0, 1.0)


phrases = st.sampled_from([phrase for phrases in REFUSAL_PHRASES.values() for phrase in phrases])
around = st.text(st.sampled_from("abc no not . é没'"), max_size=30)


@settings(deadline=None)
@given(phrases.flatmap(lambda phrase: st.from_regex(phrase, fullmatch=True)), around, around)
def test_every_phrase_of_every_language_is_found(phrase: str, before: str, after: str) -> None:
    """Searching is cut short by plain texts that each phrase must hold: none may be missed for want of one."""
    text = f"{before} {phrase} {after}"
    plain = " ".join(text.split()).lower()
    if re.search("|".join(p for ps in REFUSAL_PHRASES.values() for p in ps), plain):
        assert is_refusal(text)


@settings(deadline=None)
@given(anything)
def test_tokens_of_ascii_are_those_of_any_text(text: str) -> None:
    """Texts of ASCII alone are read by patterns of their own."""
    ascii_only = text.encode("ascii", "ignore").decode()
    # One letter beyond ASCII behind a blank sends the same text through the patterns for all texts.
    assert tokens(ascii_only) == tokens(f"{ascii_only} é")[:-1]
    assert guess_language(ascii_only) in ("", guess_language(f"{ascii_only} ¡"))


english = st.lists(
    st.sampled_from(
        [
            *(
                "the",
                "The",
                "of",
                "and",
                "to",
                "de",
                "la",
                "is",
                "not",
                "don't",
                "don`t",
                "no",
                "No.",
                "none",
                "'none'",
            ),
            *("n/a", "unable", "to", "answer", "as", "an", "ai", "model", "I", "know", "piano", "note", "3.5", "U.S.,"),
            *("unanswerable", "empty", "response", "...", "\n", "-", "aucune", "pas", "assez", "keine", "é", "漢字"),
            *("insufficient", "information", "does", "have", "any", "is-not", "_the_", "\x1c"),
        ]
    ),
    max_size=40,
)


responses = english.map(" ".join) | english.map("".join) | anything


@settings(deadline=None)
@given(st.lists(responses, min_size=1, max_size=4))
@example([". " * 200 + "none", "none", "n/a " + ". " * 200])
@example(["the plan " * 40 + "is not known", "I do not know " * 30, "'" * 330 + " no answer"])
def test_what_the_first_look_is_certain_of_is_what_the_closer_looks_say(texts: list[str]) -> None:
    for response, seen in zip(texts, WORDS.signals([(response, ()) for response in texts]), strict=True):
        assert not seen.english or guess_language(response) == "en"
        assert not seen.no_refusal or not is_refusal(response)
    found = signals_of([make_trace(query="", response=response) for response in texts])
    assert [(one.language, one.refusal) for one in found] == [
        (guess_language(response), is_refusal(response)) for response in texts
    ]


def test_the_first_look_settles_a_plain_english_answer() -> None:
    response = "The engine was built in 1820, and it is still in use."
    assert WORDS.signals([(response, ())]) == [(True, True, None)]


def test_the_first_look_settles_an_answer_whose_only_no_stands_far_behind() -> None:
    response = f"The engine was built in 1820. {'It is in use. ' * 30} Nobody is not pleased."
    assert WORDS.signals([(response, ())]) == [(True, True, None)]


@given(phrases, around, around)
def test_the_first_look_overlooks_no_refusal(phrase: str, before: str, behind: str) -> None:
    said = re.sub(r"\\w[+*]?|\(\?:|\(|\)|\?|\\b|\[|\]|\{[0-9,]+\}|\^", "", phrase.split("|")[0])
    response = f"{before} {said} {behind}"
    assert not (WORDS.signals([(response, ())])[0].no_refusal and is_refusal(response))


@settings(deadline=None)
@given(st.lists(st.tuples(anything, st.none() | anything, nodes), max_size=5))
def test_signals_of_many_are_those_of_each(given_texts: list[tuple[str, str | None, list[dict[str, object]]]]) -> None:
    traces = [make_trace(query=query, response=text, source_nodes=some) for query, text, some in given_texts]
    assert signals_of(traces) == [compute_signals(trace) for trace in traces]
