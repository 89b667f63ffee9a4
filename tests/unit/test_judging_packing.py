"""Texts that do not fit a judge's window: packed by rule, judged in parts, combined by rule, and never more calls than
allowed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.kinds import kind_spec
from tests.support.panels import make_panel, make_task
from tracejudge.judging.packing import MARKER_TOKENS, cut, pack, section_tokens, text_tokens
from tracejudge.judging.specs.kinds import BUILT_IN
from tracejudge.scores import Outcome, Score
from tracejudge.testing import make_trace
from tracejudge.testing.judges import ScriptedJudge

WINDOW = 2_048
YES, NO = '{"verdict": "YES"}', '{"verdict": "NO"}'


def words(n: int, mark: str = "") -> str:
    """About `n` tokens of text, with `mark` in its middle."""
    half = " ".join(f"word{i}." for i in range(n // 5))
    return f"{half} {mark} {half}"


async def judged(kind: str, judge: ScriptedJudge, *, spec: dict[str, Any] | None = None, **trace: Any) -> Score:
    judge_spec = kind_spec(kind, context_window_tokens=WINDOW, max_tokens=256, **(spec or {}))
    task = make_task(make_trace(0, **{"reference": "Ten.", **trace}), judge_spec.name)
    (score,) = (await make_panel(judge_spec, judge).evaluate([task])).scores
    return score


def nodes(*texts: str) -> list[dict[str, str]]:
    return [{"node_id": f"n{i}", "text": text} for i, text in enumerate(texts)]


def passages_in(prompt: str) -> list[str]:
    return re.findall(r"<<<(PASSAGE \d+(?: PART \d+)?) ", prompt)


async def test_what_fits_is_one_call_with_every_passage_in_order() -> None:
    judge = ScriptedJudge(YES)
    score = await judged("faithfulness", judge, source_nodes=nodes("a b", "c d", "e f"))
    assert passages_in(judge.prompts[0]) == ["PASSAGE 1", "PASSAGE 2", "PASSAGE 3"]
    assert (judge.calls, score.flags) == (1, ())


async def test_passages_that_do_not_fit_are_judged_in_parts_that_are_whole_passages() -> None:
    judge = ScriptedJudge(NO)
    score = await judged("faithfulness", judge, source_nodes=nodes(*(words(300) for _ in range(6))))
    asked = [passages_in(prompt) for prompt in judge.prompts]
    assert [name for names in asked for name in names] == [f"PASSAGE {n}" for n in range(1, 7)]
    assert len(asked) > 1
    assert score.usage.calls == judge.calls
    assert score.outcome is Outcome.FAILED
    assert "in_parts" in score.flags


async def test_a_passage_longer_than_a_call_is_cut_and_says_so() -> None:
    judge = ScriptedJudge(NO)
    await judged("faithfulness", judge, source_nodes=nodes(words(2_500)))
    names = [name for prompt in judge.prompts for name in passages_in(prompt)]
    assert names == [f"PASSAGE 1 PART {n}" for n in range(1, len(names) + 1)]
    assert len(names) > 1


async def test_no_request_is_longer_than_the_window() -> None:
    judge = ScriptedJudge(NO)
    texts = [words(n) for n in (10, 900, 50, 1_700, 400)]
    await judged("faithfulness", judge, source_nodes=nodes(*texts), response=words(700))
    for request in judge.requests:
        assert sum(text_tokens(message.content) for message in request) + 256 <= WINDOW


async def test_a_statement_supported_by_any_part_is_supported() -> None:
    """The first part supports one statement, the second the other; only what is left is asked again."""

    def script(prompt: str) -> str:
        if "FIRST" in prompt:
            return '{"unsupported": ["Second claim."], "verdict": "NO"}'
        assert "- Second claim." in prompt
        assert "First claim." not in prompt
        return YES

    judge = ScriptedJudge(script)
    texts = nodes(words(800, "FIRST"), words(800, "SECOND"), words(800, "THIRD"))
    score = await judged("faithfulness", judge, response="First claim. Second claim.", source_nodes=texts)
    assert (score.outcome, judge.calls) == (Outcome.PASSED, 2)


@pytest.mark.parametrize("listed", [[], ["a", "b", "c", "d", "e"]])
async def test_where_statements_may_be_missing_from_the_list_the_whole_response_goes_on(listed: list[str]) -> None:
    said = ", ".join(f'"{text}"' for text in listed)
    judge = ScriptedJudge([f'{{"unsupported": [{said}], "verdict": "NO"}}', YES])
    texts = nodes(words(900), words(900))
    score = await judged("faithfulness", judge, response="All of this.", source_nodes=texts)
    assert score.outcome is Outcome.PASSED
    assert "All of this." in judge.prompts[1]


async def test_what_no_part_supports_fails_with_the_statements_that_are_left() -> None:
    judge = ScriptedJudge('{"unsupported": ["It is blue."], "verdict": "NO"}')
    score = await judged("faithfulness", judge, source_nodes=nodes(words(900), words(900)))
    assert (score.outcome, score.feedback) == (Outcome.FAILED, "Not supported: It is blue.")
    assert score.raw_reply.count("It is blue.") == 2


async def test_every_part_of_a_long_response_must_be_supported() -> None:
    judge = ScriptedJudge(lambda prompt: NO if "WRONG" in prompt else YES)
    score = await judged("faithfulness", judge, response=words(2_500, "WRONG"))
    assert score.outcome is Outcome.FAILED
    assert judge.calls > 1
    right = await judged("faithfulness", ScriptedJudge(YES), response=words(2_500))
    assert right.outcome is Outcome.PASSED


@pytest.mark.parametrize("kind", ["context_relevancy", "relevancy", "answer_relevancy"])
async def test_one_relevant_part_is_enough_and_ends_the_asking(kind: str) -> None:
    judge = ScriptedJudge(lambda prompt: YES if "HERE" in prompt else NO)
    long = [words(900), words(900), words(900, "HERE"), words(900)]
    fields = {"response": " ".join(long)} if kind == "answer_relevancy" else {"source_nodes": nodes(*long)}
    score = await judged(kind, judge, **fields)
    assert score.outcome is Outcome.PASSED
    assert ["HERE" in prompt for prompt in judge.prompts] == [False] * (judge.calls - 1) + [True]
    assert judge.calls > 1
    nowhere = ScriptedJudge(NO)
    assert (await judged(kind, nowhere, **fields)).outcome is Outcome.FAILED
    assert nowhere.calls > judge.calls


async def test_a_guideline_must_be_kept_by_every_part() -> None:
    judge = ScriptedJudge(lambda prompt: '{"broken": ["2"], "verdict": "NO"}' if "RUDE" in prompt else YES)
    score = await judged("guideline", judge, response=words(2_500, "RUDE"))
    assert (score.outcome, score.feedback) == (Outcome.FAILED, "Broken: 2")


@pytest.mark.parametrize("kind", ["correctness", "pairwise"])
async def test_what_is_not_divided_and_does_not_fit_is_invalid_without_a_call(kind: str) -> None:
    judge = ScriptedJudge(YES)
    score = await judged(kind, judge, response=words(2_500))
    assert (score.outcome, score.reason) == (Outcome.INVALID, "bad_request")
    assert "larger window" in score.feedback
    assert judge.calls == 0


@pytest.mark.parametrize("kind", [name for name, kind in BUILT_IN.items() if kind.asks_model])
async def test_an_over_long_text_anywhere_breaks_no_batch(kind: str) -> None:
    reply = '{"verdict": "NO", "score": 4, "better": "A"}'
    spec = kind_spec(kind, context_window_tokens=WINDOW, max_tokens=256)
    huge = "x" * 200_000
    traces = [
        make_trace(0, reference="Ten."),
        make_trace(1, reference="Ten.", response=huge),
        make_trace(2, reference="Ten.", query=huge),
        make_trace(3, reference="Ten.", source_nodes=nodes(huge, "ok")),
        make_trace(4, reference=huge),
        make_trace(5, reference="Ten.", history=[{"role": "user", "content": huge}]),
        make_trace(6, reference="Ten.", response="汉" * 50_000),
    ]
    judge = ScriptedJudge(reply)
    result = await make_panel(spec, judge).evaluate([make_task(trace, spec.name) for trace in traces])
    assert len(result.scores) == len(traces)
    assert result.scores[0].outcome is not Outcome.INVALID
    assert result.scores[5].outcome is not Outcome.INVALID
    assert {score.reason for score in result.scores} <= {"", "bad_request"}
    assert max(score.usage.calls for score in result.scores) <= spec.max_calls_per_trace
    for request in judge.requests:
        assert sum(text_tokens(message.content) for message in request) + 256 <= WINDOW


async def test_the_latest_turns_of_a_long_conversation_are_kept() -> None:
    judge = ScriptedJudge(YES)
    turns = [{"role": "user", "content": words(60, f"TURN{n}.")} for n in range(40)]
    await judged("answer_relevancy", judge, history=turns)
    kept = [int(n) for n in re.findall(r"TURN(\d+)\.", judge.prompts[0])]
    assert kept == list(range(kept[0], 40))
    assert kept[0] > 0


async def test_a_failure_in_one_part_is_the_trace_s() -> None:
    judge = ScriptedJudge([NO, "hm"])
    score = await judged("faithfulness", judge, source_nodes=nodes(words(900), words(900)))
    assert (score.outcome, score.reason) == (Outcome.INVALID, "unparsable")
    assert score.raw_reply == f"{NO}\n---\nhm"


TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=400)


@given(TEXTS, st.integers(1, 60))
def test_cutting_keeps_every_character_but_space_and_each_part_fits(text: str, tokens: int) -> None:
    parts = cut(text, tokens)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part and not part.isspace() for part in parts)
    # A character of more bytes than the part has is a part by itself.
    assert all(text_tokens(part) <= max(tokens, 2) for part in parts)


@given(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=8), st.integers(MARKER_TOKENS + 4, 200))
def test_packing_keeps_the_order_and_fills_no_call_beyond_its_size(passages: list[str], tokens: int) -> None:
    calls = pack(passages, tokens)
    places = [(piece.number, piece.part) for call in calls for piece in call]
    assert places == sorted(places)
    assert {number for number, _ in places} == set(range(1, len(passages) + 1))
    for call in calls:
        assert call
        assert sum(section_tokens(piece.text) for piece in call) <= tokens


def test_a_cut_is_made_where_a_reader_would() -> None:
    text = "One sentence here. Another one there.\n\nA new paragraph begins. And ends."
    assert cut("x" * 30 + "\n\n" + "y" * 30, 9)[0] == "x" * 30
    assert cut(text, 11)[0].endswith(("there.", "here."))
