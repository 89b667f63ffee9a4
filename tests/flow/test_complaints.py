"""Traces that somebody complained about are judged after the fact, in a population of their own."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.scripted_panel import ScriptedPanel
from tests.support.upkeep import one_round
from tracejudge.reports import read_rates
from tracejudge.sampling import FeedbackTrigger
from tracejudge.scores import FEEDBACK_RUN, LIVE_RUN
from tracejudge.store import RateQuery, Store, StoredFeedback, StoredTrace
from tracejudge.testing import make_score, make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.background import complaints
from tracejudge_sdk.trace import Feedback

TRIGGER = FeedbackTrigger(judges=("scripted",))


def complain(store: Store, number: int, value: float | None, *, name: str = "f") -> None:
    said = Feedback(
        feedback_id=f"{name}-{number}", trace_id=f"t-{number:06d}", app="shop", value=value, event_time=START
    )
    store.feedback.insert([StoredFeedback(feedback=said, ingested_at=store.now())])


@pytest.fixture
def traffic(store: Store) -> Store:
    """Ten traces, of which number 1 was judged live."""
    store.traces.insert([StoredTrace(trace=make_trace(n), ingested_at=START) for n in range(10)])
    store.scores.insert([make_score(1, judge_name="scripted")])
    return store


def test_bad_feedback_is_judged_once_in_its_own_run_and_enters_no_live_rate(traffic: Store) -> None:
    for number, value in ((1, 0.0), (2, -1.0), (3, 1.0), (4, None), (77, 0.0)):
        complain(traffic, number, value)
    complain(traffic, 2, 0.0, name="again")
    panel = ScriptedPanel()
    report = one_round(traffic, panel, feedback=TRIGGER)
    assert report.scored == 2
    assert set(panel.asked) == {("t-000001", "scripted"), ("t-000002", "scripted")}
    (score,) = (one for one in traffic.scores.of_trace("t-000002"))
    assert (score.run_id, score.inclusion_probability) == (FEEDBACK_RUN, 1.0)

    def judged(run_id: str) -> int:
        query = RateQuery(start=START, end=START + timedelta(hours=1), judge="scripted", run_id=run_id)
        return sum(line.rate.judged for line in read_rates(traffic, query) if line.rate)

    assert (judged(LIVE_RUN), judged(FEEDBACK_RUN)) == (1, 2)
    assert one_round(traffic, panel, feedback=TRIGGER).scored == 0, "another process finds nothing left"
    assert panel.asked.total() == 2


def test_a_complaint_waits_for_its_trace(traffic: Store) -> None:
    complain(traffic, 50, 0.0)
    panel = ScriptedPanel()
    assert one_round(traffic, panel, feedback=TRIGGER).scored == 0
    traffic.traces.insert([StoredTrace(trace=make_trace(50), ingested_at=START)])
    assert one_round(traffic, panel, feedback=TRIGGER).scored == 1


def test_without_the_setting_nothing_is_judged(traffic: Store) -> None:
    complain(traffic, 2, 0.0)
    panel = ScriptedPanel()
    one_round(traffic, panel)
    assert not panel.asked


def test_complaints_about_traces_that_never_came_stand_before_nobody(
    traffic: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complaints, "ROWS", 50)
    for number in range(1_000, 1_120):
        complain(traffic, number, 0.0)
    complain(traffic, 2, 0.0)
    panel = ScriptedPanel()
    assert one_round(traffic, panel, feedback=TRIGGER).scored == 1
    assert set(panel.asked) == {("t-000002", "scripted")}


def test_a_judge_that_is_gone_is_asked_once_a_round(traffic: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complaints, "PAGE", 2)
    for number in range(2, 8):
        complain(traffic, number, 0.0)
    panel = ScriptedPanel(gone=True)
    assert one_round(traffic, panel, feedback=TRIGGER).scored == 0
    assert panel.asked.total() == 2, "one page, and not again and again until it is back"
    panel.gone = False
    assert one_round(traffic, panel, feedback=TRIGGER).scored == 6


def test_what_one_judge_has_settled_is_not_bought_again_for_the_sake_of_another(traffic: Store) -> None:
    complain(traffic, 2, 0.0)
    panel = ScriptedPanel("scripted", "other")
    settled = make_score(2, judge_name="scripted", judge_id=panel.judge_ids["scripted"], run_id=FEEDBACK_RUN)
    traffic.scores.insert([settled])
    assert one_round(traffic, panel, feedback=FeedbackTrigger(judges=("scripted", "other"))).scored == 1
    assert set(panel.asked) == {("t-000002", "other")}
