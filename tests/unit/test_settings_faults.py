"""What is said of a wrong file: each fault once, and where to look."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from tracejudge.alerts.notifiers import NotifierSettings
from tracejudge.alerts.rules.rule import MinimumRule
from tracejudge.alerts.trial import TrialFile
from tracejudge.errors import SettingsError
from tracejudge.judging import JudgeSpec
from tracejudge_consumer.settings import faults_of, read_toml


def test_what_is_short_of_a_refused_part_is_not_a_fault_of_its_own() -> None:
    with pytest.raises(ValidationError) as caught:
        TrialFile.model_validate({"tests": [{"name": "x", "stretches": [{"hours": 1, "rate": 0.9, "tags": {}}]}]})
    (fault,) = faults_of(caught.value, example="`the help`")
    assert fault == "tests[0].stretches[0].tags: is not a setting; check for a typo, or in `the help`"


def test_what_is_short_by_itself_is_one() -> None:
    with pytest.raises(ValidationError) as caught:
        TrialFile.model_validate({"tests": []})
    (fault,) = faults_of(caught.value)
    assert fault.startswith("tests: ")


def test_a_single_value_in_place_of_a_list_is_told_in_the_words_of_the_file() -> None:
    with pytest.raises(ValidationError) as caught:
        TrialFile.model_validate({"tests": [{"name": "x", "stretches": [{"hours": 1, "rate": 0.9}], "only": "drift"}]})
    (fault,) = faults_of(caught.value)
    assert fault == "tests[0].only: is not a list; write it in brackets, even for a single value, got 'drift'"


def test_a_mistyped_type_of_channel_is_repeated_and_what_may_be_a_secret_is_not() -> None:
    class File(BaseModel):
        notifiers: tuple[NotifierSettings, ...]

    def fault_of(typed: str) -> str:
        with pytest.raises(ValidationError) as caught:
            File.model_validate({"notifiers": [{"type": typed}]})
        (fault,) = faults_of(caught.value)
        return fault

    assert fault_of("slak").endswith("or 'apprise', got 'slak'")
    for secret in ("https://hooks.example.com/T0", "xoxb-12345", "abcdefghijklmnopqrstuvwxyz"):
        assert secret not in fault_of(secret)


def test_a_value_that_the_fault_begins_with_is_not_said_again() -> None:
    with pytest.raises(ValidationError) as caught:
        MinimumRule.model_validate({"name": "r", "judge": "lexical", "minimum": 0.9, "group_by": ["ap"]})
    (fault,) = faults_of(caught.value)
    assert fault.startswith("group_by[0]: 'ap' is nothing to group by")
    assert fault.count("'ap'") == 1


@pytest.mark.parametrize("typed", ["pass_threshold", "min_threshold"])
def test_another_word_for_a_judges_threshold_is_told_its_name(typed: str) -> None:
    class File(BaseModel):
        judges: tuple[JudgeSpec, ...]

    with pytest.raises(ValidationError) as caught:
        File.model_validate({"judges": [{"name": "lexical", "kind": "lexical", typed: 0.7}]})
    (fault,) = faults_of(caught.value)
    assert fault == f"judges[0].{typed}: is not a setting; the lowest passing score is called `threshold`"


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (3, "is not a string: write it in quotes, got 3"),
        (["a", "b"], "is not a string: write a single value in quotes, got ['a', 'b']"),
    ],
)
def test_what_is_no_text_is_told_whether_it_lacks_quotes_or_is_several(judge: object, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        MinimumRule.model_validate({"name": "r", "judge": judge, "minimum": 0.9})
    assert faults_of(caught.value) == [f"judge: {said}"]


def test_a_file_that_is_nested_too_deep_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "thresholds.toml"
    file.write_text("a = " + "[" * 5_000 + "]" * 5_000)
    with pytest.raises(SettingsError, match="nested too deep"):
        read_toml(file)
