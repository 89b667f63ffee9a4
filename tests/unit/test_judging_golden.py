"""A patch release keeps every JudgeId, and every JudgeId keeps its behaviour."""

from __future__ import annotations

import json

import pytest

from tests.support.golden_judges import FILE, transcripts
from tracejudge.judging.specs.kinds import BUILT_IN

FROZEN = json.loads(FILE.read_text(encoding="utf-8"))
NOW = transcripts()


@pytest.mark.parametrize("kind", BUILT_IN)
def test_a_kind_behaves_as_its_code_number_says(kind: str) -> None:
    """A failing line means that verdicts changed under an id that stayed: raise the kind's `code` (or PARSER, PACKING),
    then `python -m tests.support.golden_judges --write`; or put the change back."""
    frozen, now = FROZEN["kinds"][kind], NOW["kinds"][kind]
    assert now["code"] == frozen["code"], "written anew?"
    assert now["said"] == frozen["said"]


@pytest.mark.parametrize("kind", BUILT_IN)
def test_the_id_of_every_kind_stays(kind: str) -> None:
    """A failing line means that every user's charts of this judge start anew."""
    for name in ("judge_id", "default_id"):
        assert NOW["kinds"][kind][name] == FROZEN["kinds"][kind][name]


def test_the_numbers_that_all_kinds_share_stay() -> None:
    assert (NOW["parser"], NOW["packing"]) == (FROZEN["parser"], FROZEN["packing"])
