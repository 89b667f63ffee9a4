"""The lexical judge: what it sees, what it does not, where it says nothing, and that it stays as it was released."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.evaluation import BatchEvalRunner

from tracejudge.judging.evaluators.lexical import LexicalEvaluator, explain, in_words, probability
from tracejudge.judging.replies.judgement import Judgement
from tracejudge.scores import Decision
from tracejudge.signals.lexical import can_split, main_script, match, sentences
from tracejudge.signals.stems import stem, tokens

PASSAGE = (
    "Plan Basic costs 1,200 dollars a year and allows ten users per account. "
    "Dr. Smith of the billing team in Oslo approves refunds within 14 days."
)


def judge(response: str | None, *passages: str) -> Judgement:
    return asyncio.run(LexicalEvaluator().aevaluate(response=response, contexts=list(passages)))


@pytest.mark.parametrize(
    ("response", "score", "passing"),
    [
        ("Plan Basic allows ten users per account.", 0.901, True),
        ("Refunds are approved within 14 days by the billing team.", 0.864, True),
        ("The plan costs 1200 dollars. It allows 10 users.", 0.755, True),
        ("Our office in Berlin is closed on Mondays.", 0.051, False),
        ("Plan Basic costs 900 dollars, says Jane Miller from Paris.", 0.228, False),
        ("Plan Basic does not allow ten users per account.", 0.901, True),  # blind to negation: a heuristic
    ],
)
def test_golden_transcripts(response: str, score: float, passing: bool) -> None:
    """A failing line means that the judge answers otherwise than released: raise its `code`, or put the change back."""
    result = judge(response, PASSAGE)
    assert result.score == pytest.approx(score, abs=0.0006)
    assert result.passing is passing
    assert result.flags == ("heuristic",)


def test_the_feedback_names_the_least_supported_sentence_and_what_no_passage_holds() -> None:
    result = judge("Plan Basic allows ten users. It was made in 2019 by Acme Systems.", PASSAGE)
    assert (result.feedback or "").partition(" Least")[2] == (
        ' supported: "It was made in 2019 by Acme Systems." (0% of its words; in no passage: made, 2019, Acme, '
        "Systems). Numbers in no passage: 2019. Names in no passage: Acme, Systems."
    )


def test_a_wholly_supported_response_is_said_to_be_so() -> None:
    assert (judge("Ten users.", PASSAGE).feedback or "").endswith("Every content word occurs in the passages.")


@pytest.mark.parametrize(
    ("score", "threshold", "said"),
    [
        (0.864, 0.5, "Score 0.86, at least the threshold 0.5."),
        (0.864, 0.9, "Score 0.86, below the threshold 0.9."),
        (0.49961, 0.5, "Score 0.49961, below the threshold 0.5."),
        (0.50139, 0.501, "Score 0.50139, at least the threshold 0.501."),
    ],
)
def test_the_feedback_says_on_which_side_of_the_threshold_a_score_lies(
    score: float, threshold: float, said: str
) -> None:
    assert in_words(score, threshold=threshold) == said


@pytest.mark.parametrize(
    ("response", "passages", "code"),
    [
        ("Ten users.", [], "no_context"),
        ("Ten users.", [""], "no_context"),
        ("Ten users.", ["  \n"], "no_context"),
        (None, [PASSAGE], "no_response"),
        ("", [PASSAGE], "no_response"),
        ("我们的办公室星期一关门。", ["我们的办公室星期一关门。"], "language"),
        ("เราปิดทุกวันจันทร์", [PASSAGE], "language"),
        ("Ten users.", ["計画は十人まで利用できます。"], "language"),
        ("План стоит дорого.", [PASSAGE], "language"),
        ("It is not so.", [PASSAGE], "nothing_to_check"),
        ("...", [PASSAGE], "nothing_to_check"),
    ],
)
def test_what_words_cannot_tell_is_not_applicable(response: str | None, passages: list[str], code: str) -> None:
    result = judge(response, *passages)
    assert (result.decision, result.code) == (Decision.NOT_APPLICABLE, code)
    assert (result.passing, result.score, result.invalid_result) == (None, None, True)


def test_other_languages_with_spaces_are_judged() -> None:
    passage = "Der Tarif kostet zwölf Euro im Monat und gilt für zehn Nutzer."
    assert judge("Der Tarif gilt für zehn Nutzer.", passage).passing is True
    assert judge("Das Büro in Köln bleibt montags geschlossen.", passage).passing is False


def test_more_unsupported_words_never_raise_the_score() -> None:
    words = ["ten", "users", "per", "account", "zebra", "Quagga", "77", "Okapi"]
    scores = []
    for count in range(len(words)):
        found = match(f"Plan {' '.join(words[: 4 + max(0, count - 3)])}", [PASSAGE])
        assert found is not None
        scores.append(probability(found))
    assert scores == sorted(scores, reverse=True)


async def test_it_runs_in_a_stock_batch_eval_runner() -> None:
    runner = BatchEvalRunner({"lexical": LexicalEvaluator()}, workers=2)
    results = await runner.aevaluate_response_strs(
        queries=["Who?", "What?"],
        response_strs=["Plan Basic allows ten users.", "The moon is made of cheese."],
        contexts_list=[[PASSAGE], [PASSAGE]],
    )
    assert [result.passing for result in results["lexical"]] == [True, False]


async def test_a_very_long_trace_is_judged_beside_the_event_loop() -> None:
    result = await LexicalEvaluator().aevaluate(response="Ten users.", contexts=[PASSAGE, "word " * 60_000])
    assert result.passing is True


def test_its_prompts_cannot_be_changed_behind_its_id() -> None:
    evaluator = LexicalEvaluator()
    assert evaluator.get_prompts() == {}


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("See Dr. Smith, e.g. on 3.5 pages. Then go.", ["See Dr. Smith, e.g. on 3.5 pages.", "Then go."]),
        ("J. R. Smith wrote it.", ["J. R. Smith wrote it."]),
        ("- first item\n- second item\n\n* third", ["- first item", "second item", "third"]),
        ('He said "no." Then left.', ['He said "no."', "Then left."]),
        ("", []),
        ("   \n ", []),
        ("no end", ["no end"]),
    ],
)
def test_sentences_end_at_stops_and_line_breaks_and_not_at_abbreviations(text: str, cut: list[str]) -> None:
    assert sentences(text) == cut


@pytest.mark.parametrize(
    "group",
    [
        ["user", "Users", "user's", "USERS"],
        ["approve", "approves", "approved", "approving"],
        ["city", "cities"],
        ["plan", "plans", "planned", "planning"],
        ["box", "boxes"],
        ["1,200", "1200", "1200.0", "01200"],
        ["quick", "quickly"],
    ],
)
def test_forms_of_a_word_share_a_stem(group: list[str]) -> None:
    assert len(set(map(stem, group))) == 1


@pytest.mark.parametrize("pair", [("3.5", "35"), ("12", "120"), ("bus", "bu"), ("class", "clas")])
def test_other_words_do_not(pair: tuple[str, str]) -> None:
    assert stem(pair[0]) != stem(pair[1])


def test_tokens_are_words_and_whole_numbers() -> None:
    assert tokens("It's 3.5%, i.e. 1,200 of IPv6-nodes (naïve).") == [
        "It's",
        "3.5",
        "i",
        "e",
        "1,200",
        "of",
        "IPv6",
        "nodes",
        "naïve",
    ]


@pytest.mark.parametrize(
    ("text", "splits"),
    [
        ("plain English", True),
        ("", True),
        ("Ünïcode with açcents", True),
        ("한국어는 띄어쓰기를 합니다", True),
        ("The city of 北京 has many visitors every year", True),
        ("我们的办公室星期一关门", False),
        ("これはペンです", False),
        ("ภาษาไทยไม่มีช่องว่าง", False),
        ("ភាសាខ្មែរ", False),
        ("使用 API 的方法", False),
    ],
)
def test_scripts_without_spaces_cannot_be_split(text: str, splits: bool) -> None:
    assert can_split(text) is splits


def test_the_main_script_is_that_of_most_letters() -> None:
    assert main_script("hello мир") == "latin"
    assert main_script("привет world мир") == "cyrillic"
    assert main_script("1234 !?") == ""


@pytest.mark.parametrize(("word", "digits"), [("five", "5"), ("ten", "10"), ("twelve", "12"), ("twenty", "20")])
def test_a_number_that_a_passage_spells_out_is_held_by_it(word: str, digits: str) -> None:
    found = match(f"It allows {digits} users.", [f"It allows {word} users."])
    assert found is not None
    assert found.unmatched_numbers == ()


def test_the_explanation_is_bounded() -> None:
    found = match("word " * 5000, [PASSAGE])
    assert found is not None
    assert len(explain(found)) <= 2_000
