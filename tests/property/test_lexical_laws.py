"""Laws of looking at words: nothing raises, shares are shares, and more context never takes support away."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tracejudge.judging.evaluators.lexical import explain, probability
from tracejudge.signals.lexical import can_split, main_script, match, sentences
from tracejudge.signals.overlap import lexical_overlap
from tracejudge.signals.stems import content_stems, cut, different_stems, stem, stems_of, tokens

WORDS = st.lists(
    st.sampled_from(
        ["plan", "plans", "ten", "users", "per", "account", "Oslo", "1,200", "14", "e.g.", "Dr.", "zebra", "not", "the"]
    ),
    max_size=12,
).map(" ".join)
TEXTS = st.text() | WORDS


@given(TEXTS, st.lists(TEXTS, max_size=3))
@example(" " * 50_000, ["x"])
@example("e.g. " * 20_000, ["x"])
@example("1," * 50_000, ["x"])
@example("a" * 200_000, ["a" * 200_000])
@example("\n" * 50_000 + ".", [". " * 20_000])
def test_no_text_raises_or_takes_more_than_linear_time(response: str, passages: list[str]) -> None:
    found = match(response, passages)
    if found is not None:
        word_mean, word_min, pair_mean, pair_min, numbers, names = found.features
        assert 0.0 <= word_min <= word_mean <= 1.0
        assert 0.0 <= pair_min <= pair_mean <= 1.0
        assert min(numbers, names) >= 0.0
        assert 0.0 <= probability(found) <= 1.0
        assert explain(found)
    can_split(response)
    main_script(response)


@given(WORDS, st.lists(WORDS, max_size=3), WORDS)
def test_a_further_passage_never_lowers_overlap_or_score(response: str, passages: list[str], further: str) -> None:
    before, after = match(response, passages), match(response, [*passages, further])
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert probability(after) >= probability(before) - 1e-12
    less, more = lexical_overlap(response, passages), lexical_overlap(response, [*passages, further])
    if less is not None:
        assert more is not None
        assert more >= less


@given(WORDS)
def test_a_text_is_wholly_covered_by_itself(text: str) -> None:
    assert lexical_overlap(text, [text]) in (None, 1.0)
    found = match(text, [text])
    if found is not None:
        assert found.features[0] == found.features[1] == 1.0
        assert (found.unmatched_numbers, found.unmatched_names) == ((), ())


@given(TEXTS)
def test_sentences_lose_no_word(text: str) -> None:
    assert [token for sentence in sentences(text) for token in tokens(sentence)] == tokens(text)


@given(st.text(min_size=1))
def test_a_stem_of_a_word_in_capitals_is_that_of_the_word(word: str) -> None:
    for token in tokens(word):
        if token.isascii():
            assert stem(token.upper()) == stem(token.lower()) == stem(token)


@given(TEXTS)
@example("(1,200 users') O'Neil’s plan_two,plan-three 3.14. 2\u00a0plans \u2028ten")
@example("a" * 130 + "1" * 130)
def test_words_cut_at_blanks_are_the_words_of_the_whole_text(text: str) -> None:
    assert sorted(stems_of(cut(text))) == sorted(content_stems(text))
    assert different_stems(text) == set(content_stems(text))


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_a_passage_that_is_remembered_gives_the_overlap_it_gave(response: str, passages: list[str]) -> None:
    own = content_stems(response)
    held = {word for passage in passages for word in content_stems(passage)}
    readable = any(passage and not passage.isspace() for passage in passages) and can_split(response)
    share = sum(word in held for word in own) / len(own) if own else None
    expected = share if readable and all(map(can_split, passages)) else None
    assert lexical_overlap(response, passages) == expected
    assert lexical_overlap(response, passages) == expected
