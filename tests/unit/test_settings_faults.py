"""What is said of a wrong file: each fault once, and where to look."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tracejudge.alerts.trial import TrialFile
from tracejudge_consumer.settings import faults_of


def test_what_is_short_of_a_refused_part_is_not_a_fault_of_its_own() -> None:
    with pytest.raises(ValidationError) as caught:
        TrialFile.model_validate({"tests": [{"name": "x", "stretches": [{"hours": 1, "rate": 0.9, "tags": {}}]}]})
    (fault,) = faults_of(caught.value, example="`the help`")
    assert fault == "tests[0].stretches[0].tags: is not a setting; look for a typing error, or in `the help`"


def test_what_is_short_by_itself_is_one() -> None:
    with pytest.raises(ValidationError) as caught:
        TrialFile.model_validate({"tests": []})
    (fault,) = faults_of(caught.value)
    assert fault.startswith("tests: ")


def test_a_single_value_in_place_of_a_list_is_told_in_the_words_of_the_file() -> None:
    with pytest.raises(ValidationError) as caught:
        TrialFile.model_validate({"tests": [{"name": "x", "stretches": [{"hours": 1, "rate": 0.9}], "only": "drift"}]})
    (fault,) = faults_of(caught.value)
    assert fault == "tests[0].only: is not a list; write one in brackets, also of a single value, got 'drift'"
