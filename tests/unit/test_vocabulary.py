"""The words of many texts as numbers, whatever the words are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tracejudge.signals import vocabulary as module
from tracejudge.signals.passages import Passages
from tracejudge.signals.stems import content_stems
from tracejudge.signals.vocabulary import MOST_WORDS, Integers, Lanes, Vocabulary
from tracejudge.signals.word_signals import WordReader


def read(vocabulary: Vocabulary, text: str) -> list[str]:
    words = vocabulary.read([text])
    numbers, _ = vocabulary.stems(words.numbers, np.zeros(len(words.numbers), np.int64))
    return sorted(vocabulary.stem_names[number] for number in numbers.tolist())


def numbered(count: int) -> str:
    return " ".join(f"word{number}" for number in range(count))


def test_words_that_all_want_the_same_slot_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(_: Vocabulary, first: Lanes, second: Lanes) -> Integers:
        return np.full(len(first), 2**module._SLOT_BITS - 1, np.int64)

    monkeypatch.setattr(Vocabulary, "_slots", always)
    vocabulary = Vocabulary()
    text = numbered(20)
    for _ in range(2):
        assert read(vocabulary, f"{text} {text}") == sorted(2 * content_stems(text))
    assert len(vocabulary._others) == 20 - module._PROBES


def test_a_word_keeps_its_number() -> None:
    vocabulary = Vocabulary()
    words = vocabulary.read(["one two one antidisestablishmentarianism", "two. one, antidisestablishmentarianism"])
    one, two, again, long = words.numbers[:4].tolist()
    assert one == again
    assert words.numbers[4:].tolist() == [two, one, long]
    assert vocabulary.read(["two"]).numbers.tolist() == [two]
    assert words.bounds.tolist() == [0, 4, 7]


def test_words_of_any_length_are_told_apart_at_their_ends() -> None:
    text = " ".join("x" * length + end for length in range(70) for end in "ab")
    vocabulary = Vocabulary()
    for _ in range(2):
        assert read(vocabulary, text) == sorted(content_stems(text))
    assert max(map(len, vocabulary._others)) <= module._LONGEST


def test_a_vocabulary_that_is_full_is_replaced_and_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WORDS", 50)
    reader = WordReader()
    first = reader._vocabulary
    texts = [(f"word{number} of zebras", [numbered(number)]) for number in range(1, 60)]
    assert [one.overlap for one in reader.signals(texts)] == [0.0] * 59  # its passage ends a number before
    assert first.is_full
    assert [one.overlap for one in reader.signals([("word7 of zebras", ["word7"])])] == [0.5]
    assert reader._vocabulary is not first


def test_one_word_of_many_parts_fills_a_vocabulary_as_its_parts_would() -> None:
    vocabulary = Vocabulary()
    for number in range(MOST_WORDS // 10_000 + 1):
        vocabulary.read([".".join(f"a{number}b{part}" for part in range(10_000))])
    assert vocabulary.is_full


def test_responses_without_blanks_between_words_fill_no_vocabulary() -> None:
    reader = WordReader()
    known = reader._vocabulary._met
    texts = [(f"退款在第{number}天到账。" * 9, ["refunds take days"]) for number in range(20)]
    assert {(one.english, one.no_refusal, one.overlap) for one in reader.signals(texts)} == {(False, False, None)}
    assert reader._vocabulary._met == known + len(["refunds", "take", "days"])


def test_a_text_without_a_word_has_none() -> None:
    words = Vocabulary().read(["", " ,. ... ", "\n", "漢"])
    assert Vocabulary().read([]).bounds.tolist() == [0]
    assert words.bounds.tolist() == [0, 0, 2, 2, 3]


def test_threads_that_read_at_once_get_what_each_gets_alone() -> None:
    texts = [[(f"word{n} word{n + 1} zebra", [numbered(n + 1)])] for n in range(200)]
    alone = [WordReader().signals(one) for one in texts[:1]]
    reader = WordReader()
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(reader.signals, texts))
    assert together[:1] == alone
    assert [found[0].overlap for found in together] == [pytest.approx(1 / 3)] * 200


def test_few_passages_are_remembered_the_latest_among_them() -> None:
    passages = Passages(Vocabulary(), most_stems=200)  # of either generation
    for number in range(1_000):
        passages.stems([f"passage{number} holds these words"])
        assert len(passages) <= 2 * 200 // 80
    text = "passage999 holds these words"
    (again,) = passages.stems([text])
    assert again is not None
    assert passages.stems([text, "another", text])[0] is again
    assert len(again) == 3


def test_a_passage_that_is_asked_for_stays_while_others_come_and_go() -> None:
    passages = Passages(Vocabulary(), most_stems=200)
    (first,) = passages.stems(["the passage of every answer"])
    for number in range(100):
        found, _ = passages.stems(["the passage of every answer", f"passage{number}"])
        assert found is first


def test_of_several_passages_each_has_its_own_stems() -> None:
    vocabulary = Vocabulary()
    passages = Passages(vocabulary)
    texts = ["ten users", "", "这是一个关于退款的段落", "e.g.b.c zebras, ten", "…", "ten users"]
    for _ in range(2):
        found = passages.stems(texts)
        names = vocabulary.stem_names
        assert found[2] is None
        for text, stems in zip(texts, found, strict=True):
            if stems is not None:
                assert sorted(names[number] for number in stems.tolist()) == sorted(content_stems(text))
    assert passages.stems([]) == []
