"""What `tracejudge replay` says at its end of a selection that it did not come to the end of."""

from __future__ import annotations

import json

import pytest

from tracejudge.judging import JudgeSpec
from tracejudge.replay import OpenRun, ReplayReport, Selection
from tracejudge.scores import Decision
from tracejudge.store import RunManifest, TraceFilter
from tracejudge.testing.builders import START
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_UNDECIDED
from tracejudge_consumer.views.replay import tell

RUN = OpenRun(
    run_id="try-1",
    selection=Selection(where=TraceFilter()),
    stored=RunManifest(run_id="try-1", kind="replay", started_at=START, manifest={}),
)
CAPPED = ReplayReport(run_id="try-1", traces=1000, passed=900, decisions={Decision.OVER_BUDGET: 100})
WHOLE = ReplayReport(run_id="try-1", traces=5000, passed=5000, complete=True)


def told(report: ReplayReport, capsys: pytest.CaptureFixture[str], *, as_json: bool = False, expect: int) -> str:
    spec = JudgeSpec(name="lexical", kind="lexical")
    status = tell(report, (spec,), RUN, frozenset(), selected=5000, config="tracejudge.toml", as_json=as_json)
    assert status == expect
    return capsys.readouterr().out


def test_a_replay_stopped_at_its_cap_says_how_many_it_never_reached_and_how_to_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = told(CAPPED, capsys, expect=EXIT_UNDECIDED)
    assert "4000 traces of 5000 in the selection not reached" in said
    assert "repeat the command with a higher cap to continue" in said
    facts = json.loads(told(CAPPED, capsys, as_json=True, expect=EXIT_UNDECIDED))
    assert (facts["selected"], facts["traces"], facts["not_reached"]) == (5000, 1000, 4000)


def test_a_replay_that_is_complete_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "not reached" not in told(WHOLE, capsys, expect=EXIT_DONE)
    assert json.loads(told(WHOLE, capsys, as_json=True, expect=EXIT_DONE))["not_reached"] == 0
