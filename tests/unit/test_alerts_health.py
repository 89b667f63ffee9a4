"""A judge's failures are a measure of their own."""

from __future__ import annotations

from datetime import timedelta

from tests.support.verdicts import row
from tracejudge.alerts import HEALTH_RULE, Engine, MinimumRule
from tracejudge.alerts.series.health import InvalidShare

RULE = MinimumRule(name="quality", judge="lexical", minimum=0.8)


def test_a_burst_of_judge_errors_is_said_once_and_its_end_too_and_never_a_fall_in_quality() -> None:
    engine = Engine([RULE])
    rows = [row(k) for k in range(100)]
    rows += [row(k, passed=None if k % 2 else True) for k in range(100, 160)]
    rows += [row(k) for k in range(160, 300)]
    events = engine.fold(rows)
    assert [event.kind for event in events] == ["evaluator_unhealthy", "evaluator_healthy"]
    sick, well = events
    assert sick.series.rule == HEALTH_RULE
    assert sick.summary.startswith("lexical could not judge ")
    assert "of recent" not in sick.summary.split(",")[1]
    assert sick.evidence["rows"] in range(20, 61)
    assert well.at > sick.at


def test_every_line_about_a_judge_without_a_model_says_so() -> None:
    engine = Engine([RULE.model_copy(update={"no_data_after": "2h"})])
    rows = [row(k, passed=None if 30 <= k < 60 else True, flags=("heuristic",)) for k in range(300)]
    events = engine.fold(rows)
    events += engine.tick(rows[-1].judged_at + timedelta(hours=3))
    events += engine.fold([row(900, flags=("heuristic",))])
    assert [event.kind for event in events] == ["evaluator_unhealthy", "evaluator_healthy", "no_data", "data_back"]
    for event in events:
        assert "lexical (heuristic)" in event.summary
        assert event.heuristic


def test_fewer_than_twenty_rows_say_nothing_about_a_judge() -> None:
    share = InvalidShare()
    turned = [share.add(invalid=True, event_time=s.event_time, judged_at=s.judged_at) for s in map(row, range(19))]
    assert not any(turned)
    assert share.value is None
    last = row(19)
    assert share.add(invalid=True, event_time=last.event_time, judged_at=last.judged_at)
    assert share.value == 1.0


def test_a_share_that_wavers_around_the_limit_does_not_flap() -> None:
    engine = Engine([RULE])
    rows = [row(k, passed=None if k % 5 in (0, 2) and k % 2 else True) for k in range(2000)]  # one in five
    assert len(engine.fold(rows)) <= 1


def test_the_recent_rows_are_the_last_hour_or_the_last_twenty_where_an_hour_holds_fewer() -> None:
    share = InvalidShare()
    for k in range(40):  # one row an hour
        s = row(k, minute=60 * k)
        share.add(invalid=k < 10, event_time=s.event_time, judged_at=s.judged_at)
    assert (share.rows, share.invalid) == (20, 0)
    busy = InvalidShare()
    for k in range(10_000):  # 40 hours at 250 rows an hour
        s = row(k, minute=0.24 * k)
        busy.add(invalid=False, event_time=s.event_time, judged_at=s.judged_at)
    assert 230 <= busy.rows <= 275


def test_a_judge_without_a_rule_is_watched_too() -> None:
    engine = Engine([])
    events = engine.fold([row(k, passed=None) for k in range(30)])
    assert [event.kind for event in events] == ["evaluator_unhealthy"]
    assert engine.status() == []


def test_a_judge_that_never_answered_is_unhealthy_not_ok() -> None:
    engine = Engine([RULE])
    engine.fold([row(k, passed=None) for k in range(30)])
    (status,) = engine.status()
    assert status.state == "evaluator_unhealthy"
    assert status.n_eff == 0


def test_a_share_at_the_limit_is_not_above_it() -> None:
    """20 % of 20 rows: neither unhealthy at exactly the limit nor, once unhealthy, before the lower one is reached."""
    share = InvalidShare()

    def add(number: int, *, invalid: bool) -> bool:
        one = row(number)
        return share.add(invalid=invalid, event_time=one.event_time, judged_at=one.judged_at)

    begun = [add(k, invalid=k < 4) for k in range(20)]
    assert not any(begun)
    assert (share.value, share.unhealthy) == (0.2, False)
    assert add(20, invalid=True)  # 5 of 21
    turned = [add(k, invalid=False) for k in range(21, 51)]
    assert [k for k, one in enumerate(turned, start=21) if one] == [49], "5 of 50 are 10 %"
