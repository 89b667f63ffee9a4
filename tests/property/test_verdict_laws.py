"""Laws of reading replies: nothing raises, and only the first word decides."""

from __future__ import annotations

import math

from hypothesis import example, given
from hypothesis import strategies as st

from tracejudge.judging.verdict import Number, Unreadable, Verdict, parse_number, parse_verdict
from tracejudge.scores import InvalidReason


@given(st.text())
@example('{"verdict": "\\ud800"}')
@example("</think><think>")
def test_no_text_raises_and_what_is_unreadable_has_a_reason(text: str) -> None:
    verdict = parse_verdict(text)
    assert isinstance(verdict, (Verdict, Unreadable))
    if isinstance(verdict, Unreadable):
        assert verdict.reason in InvalidReason
        assert verdict.detail


@given(st.text(alphabet="yesnoYESNO .,:;-\n*{}\"'verdict<think>/", max_size=60))
def test_a_plain_verdict_is_the_reply_s_first_word(text: str) -> None:
    verdict = parse_verdict(text)
    if isinstance(verdict, Verdict) and not text.lstrip().startswith(("{", "<", "`", "v")) and "</" not in text:
        first = text.strip().lstrip("*").lower()
        assert first.startswith("yes" if verdict.yes else "no")


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
