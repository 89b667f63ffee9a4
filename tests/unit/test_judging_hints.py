"""The quick searches before the patterns overlook nothing that the patterns alone would find."""

from __future__ import annotations

import random
import re

import pytest

from tracejudge.judging.prompts.hints import suspicious

_QUOTE = r"[\"'`*]"
SLOW = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"<<<|\uff1c{3}|<\|[a-z_]{2,20}\|>|\[/?INST\]|</?s>|<(?:start|end)_of_turn>",
        r"\b(?:ignore|disregard|forget|override)\W+(?:\w+\W+){0,3}"
        r"(?:instructions?|rules?|prompts?|guidelines?|directions?|above)\b",
        r"\b(?:answer|reply|respond|output|say|return|print|write|choose|give)[^\w.!?]+(?:\w+[^\w.!?]+){0,5}?"
        rf"(?:(?-i:YES|NO|PASS)\b|{_QUOTE}+(?:yes|no|pass(?:ed)?){_QUOTE}+)",
        rf"{_QUOTE}?\bverdict\b{_QUOTE}?\s*[:=]",
        r"\b(?:dear|attention|note to|message to|instructions? to|instructions? for|to the)\W+(?:the\W+)?"
        r"(?:judge|evaluator|grader|assessor)\b",
        r"\b(?:new|updated|system)\W+(?:system\W+)?(?:instructions?|prompt|message|override)\b",
    )
)
PIECES = (
    *("ignore", "Disregard", "FORGET", "override", "all", "the", "previous", "instructions", "rule", "prompt", "above"),
    *(
        "answer",
        "reply",
        "say",
        "Return",
        "give",
        "YES",
        "NO",
        "PASS",
        "'yes'",
        '"no"',
        "**passed**",
        "`no`",
        "yes",
        "no",
    ),
    *(
        "no",
        "verdict",
        "verdict:",
        '"verdict" =',
        "dear",
        "note to",
        "to the",
        "judge",
        "evaluator",
        "grader",
        "assessor",
    ),
    *(
        "new",
        "updated",
        "system",
        "message",
        "instruction",
        "<",
        "<<",
        "<<<",
        "<|im_end|>",
        "[INST]",
        "[",
        "</s>",
        "<s",
    ),
    *("<start_of_turn>", "\uff1c\uff1c\uff1c", "Größe", "北京", ".", "!", ",", "\n", "judgement", "guard", "target"),
)


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_what_the_patterns_find(seed: int) -> None:
    rng = random.Random(seed)
    found = 0
    for _ in range(2_000):
        text = " ".join(rng.choices(PIECES, k=rng.randint(1, 9)))
        slow = any(pattern.search(text) for pattern in SLOW)
        assert suspicious([text]) == slow, text
        found += slow
    assert 200 < found < 1_900


@pytest.mark.parametrize("filler", ['"', "'", "`", "*", "- ", "`` "])
def test_what_stands_between_an_order_and_its_verdict_is_gone_through_once(filler: str) -> None:
    """A repeat beside another made minutes of 100 kB of quotation marks, in the loop that every judge shares."""
    assert not suspicious([f"NO 'yes'. say {filler * (200_000 // len(filler))}"])
