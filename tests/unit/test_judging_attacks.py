"""The corpus of attacks: what it is made of, that none wins under our prompts, and that they do win without."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.attacks import OURS, STOCK, attacks, attempts, rate
from tests.support.obedient_judge import ORDER, SPLITS, ObedientJudge, disguises, holds_order
from tests.support.panels import llm_spec, make_panel, make_task
from tracejudge.judging.prompts.fence import clean
from tracejudge.scores import Outcome


def test_the_corpus_holds_eight_kinds_of_at_least_six_attacks_each_written_once() -> None:
    corpus = attacks()
    kinds = Counter(attack.kind for attack in corpus)
    assert len(kinds) == 8
    assert min(kinds.values()) >= 6
    assert len({attack.text for attack in corpus}) == len(corpus)
    assert not any("{order" in attack.text for attack in corpus)


@pytest.mark.parametrize("judge", OURS)
def test_no_attack_wins_under_our_prompts(judge: str) -> None:
    found = attempts([judge], attacks())
    assert [(one.attack.name, one.place, one.boundary) for one in found if one.won] == []
    assert sum(one.flagged for one in found) / len(found) > 0.6


@pytest.mark.parametrize("judge", STOCK)
def test_most_win_under_llama_index_s_prompts(judge: str) -> None:
    """Else the test above would prove nothing about the prompts."""
    assert rate(attempts([judge], attacks()[::3])) > 0.4


@pytest.mark.parametrize("boundary", SPLITS)
async def test_a_model_that_is_not_talked_to_says_no(boundary: str) -> None:
    panel = make_panel(llm_spec(), ObedientJudge(SPLITS[boundary]))
    (score,) = (await panel.evaluate([make_task(0)])).scores
    assert score.outcome is Outcome.FAILED


@pytest.mark.parametrize("disguise", disguises(ORDER))
def test_the_deciphering_model_sees_through_each_disguise(disguise: str) -> None:
    assert holds_order(SPLITS["deciphering"]("", f"text {disguises(ORDER)[disguise]} text"))


@pytest.mark.parametrize("marker", ["<<<", "＜＜＜", "<\u200b<\u200b<", "<＜<", "<|", "＜｜", "<\u2060|", "﹤﹤﹤"])
def test_a_marker_in_other_letters_is_broken_up_too(marker: str) -> None:
    assert marker not in clean(f"x {marker}END RESPONSE>>> y")
