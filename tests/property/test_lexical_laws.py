"""Laws of looking at words: nothing raises, shares are shares, and more context never takes support away."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tracejudge.judging.evaluators.lexical import explain, probability
from tracejudge.signals.lexical import can_split, main_script, match, sentences
from tracejudge.signals.stems import content_stems, stem, tokens
from tracejudge.signals.vocabulary import Vocabulary
from tracejudge.signals.word_signals import WORDS as READER

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


@given(st.lists(TEXTS, max_size=4), st.lists(TEXTS, max_size=4))
@example(["(1,200 users') O'Neil’s plan_two,plan-three 3.14. 2\u00a0plans \u2028ten"], [""])
@example(
    ["a" * 130 + "1" * 130, ". , ... 'a' a.b.c,d a.b.c,d"], ["sixteen.letters' sixteen.letters, seventeen.letters"]
)
def test_words_read_together_are_the_words_of_each_text(before: list[str], texts: list[str]) -> None:
    vocabulary = Vocabulary()
    vocabulary.read(before)  # what was met before, or was not
    for _ in range(2):
        words = vocabulary.read(texts)
        owners = np.repeat(np.arange(len(texts)), np.diff(words.bounds))
        numbers, of = vocabulary.stems(words.numbers, owners)
        for place, text in enumerate(texts):
            found = [vocabulary.stem_names[number] for number in numbers[of == place].tolist()]
            assert sorted(found) == sorted(content_stems(text))


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=3)), min_size=1, max_size=5))
def test_overlap_is_the_share_of_the_content_words_that_the_passages_hold(
    texts: list[tuple[str, list[str]]],
) -> None:
    """Of many at once as of each alone, by the words that a pattern finds in the whole text."""
    expected = [share(response, passages) for response, passages in texts]
    assert [found.overlap for found in READER.signals(texts)] == expected
    assert [READER.signals([one])[0].overlap for one in texts] == expected


def share(response: str, passages: list[str]) -> float | None:
    own = content_stems(response)
    held = {word for passage in passages for word in content_stems(passage)}
    if not own or not passages or not all(map(can_split, [response, *passages])):
        return None
    return sum(word in held for word in own) / len(own)


def lexical_overlap(response: str, passages: list[str]) -> float | None:
    return READER.signals([(response, passages)])[0].overlap
