"""The page about judges says what there is: every kind, settings that are accepted, names that exist."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import llama_index.core.evaluation
import pytest
import tomli

import tracejudge.judging
from tracejudge.judging import JudgeSpec, check_caps
from tracejudge.judging.runner import EvalRunner
from tracejudge.judging.specs.kinds import BUILT_IN

PAGE = Path(tracejudge.judging.__file__).with_name("JUDGES.md").read_text(encoding="utf-8")
EXAMPLE = (Path(__file__).parents[2] / "deploy" / "settings.example.toml").read_text(encoding="utf-8")


def test_every_kind_stands_in_the_table_with_what_it_needs() -> None:
    table = PAGE.partition("## Settings by example")[0]
    for name, kind in BUILT_IN.items():
        assert f"`{name}`" in table
        heuristic = re.search(rf"`{name}` \(heuristic\)", table) is not None
        assert heuristic is kind.heuristic


def judges_of_the_page() -> list[dict[str, Any]]:
    block = PAGE.partition("## Settings by example")[2].partition("\n- **")[0]
    judges: list[dict[str, Any]] = tomli.loads(textwrap.dedent(block))["judges"]
    return judges


@pytest.mark.parametrize("fields", judges_of_the_page(), ids=lambda fields: str(fields["name"]))
def test_the_settings_shown_are_accepted_and_capped(fields: dict[str, Any]) -> None:
    spec = JudgeSpec.model_validate(fields)
    assert check_caps([spec]) == []


def test_every_setting_of_a_judge_is_in_the_example_file() -> None:
    section = EXAMPLE.partition("[[judges]]")[2].partition("[sampling]")[0]
    for name in (*JudgeSpec.model_fields, "prompt_file"):
        assert re.search(rf"\b{name}\b", section), name


def test_what_the_page_says_is_not_in_llama_index_is_not_there_and_what_we_offer_is() -> None:
    for name in ("HitRateEvaluator", "MRREvaluator", "LatencyEvaluator", "ContextPrecision"):
        assert not hasattr(llama_index.core.evaluation, name)
    for name in ("aevaluate_dataset", "evaluate_dataset"):
        assert not hasattr(llama_index.core.evaluation.BatchEvalRunner, name)
    assert {"max_attempts", "timeout_s", "concurrency"} <= set(JudgeSpec.model_fields)
    assert callable(EvalRunner.aevaluate_responses)
