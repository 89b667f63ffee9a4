"""Laws of reading replies: nothing raises, and only the first word decides."""

from __future__ import annotations

import math

from hypothesis import example, given
from hypothesis import strategies as st

from tracejudge.judging.replies.verdict import Number, Unreadable, Verdict, parse_choice, parse_number, parse_verdict
from tracejudge.judging.replies.verdict_words import NO_WORDS, YES_WORDS, polarity
from tracejudge.scores import InvalidReason


@given(st.text())
@example('{"verdict": "\\ud800"}')
@example("</think><think>")
@example("\u017fi.")
@example("HAYIR!")
@example('{"score": 1e999}')
@example('{"score": NaN}')
@example("[[C]]")
def test_no_text_raises_and_what_is_unreadable_has_a_reason(text: str) -> None:
    for reading in (parse_verdict(text), parse_number(text, low=1.0, high=5.0), parse_choice(text)):
        if isinstance(reading, Unreadable):
            assert reading.reason in InvalidReason
            assert reading.detail


@given(st.sampled_from([*YES_WORDS, *NO_WORDS]), st.sampled_from(["", ".", ", weil", " - eyes", "。", "**"]))
def test_every_word_of_the_list_is_a_verdict_in_any_case(word: str, rest: str) -> None:
    bold = "**" if rest == "**" else ""
    for said in (word, word.upper()):
        verdict = parse_verdict(f"{bold}{said}{rest}")
        assert isinstance(verdict, Verdict), said
        assert verdict.yes is polarity(word)


def test_no_word_is_both() -> None:
    assert not set(YES_WORDS) & set(NO_WORDS)


@given(st.text(alphabet="yesnoYESNO .,:;-\n*{}\"'verdict<think>/", max_size=60))
def test_a_plain_verdict_is_the_reply_s_first_word(text: str) -> None:
    verdict = parse_verdict(text)
    if isinstance(verdict, Verdict) and not text.lstrip().startswith(("{", "<", "`", "v")) and "</" not in text:
        first = text.strip().lstrip("*").lower()
        assert first.startswith(YES_WORDS if verdict.yes else NO_WORDS)


@given(st.sampled_from(["YES", "NO"]), st.text(alphabet="abc defg,;\n", max_size=40))
def test_words_after_a_verdict_do_not_turn_it(word: str, rest: str) -> None:
    verdict = parse_verdict(f"{word}. {rest}")
    assert isinstance(verdict, Verdict)
    assert verdict.yes is (word == "YES")


@given(st.text(), st.floats(0.0, 1.0), st.floats(2.0, 10.0))
def test_a_number_is_on_its_scale_or_there_is_none(text: str, low: float, high: float) -> None:
    number = parse_number(text, low=low, high=high)
    if isinstance(number, Number):
        assert math.isfinite(number.value)
        assert low <= number.value <= high
