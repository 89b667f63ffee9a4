"""One knob for all rules of an application: who has which part of it, and that no part is ever given twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.verdicts import minute, row, verdicts
from tracejudge.alerts import DriftRule, Engine, MinimumRule, PlacePromise, Promises, Rule, VolumeRule
from tracejudge.alerts.backtest import backtest


def rule(name: str = "floor", **fields: Any) -> MinimumRule:
    return MinimumRule(name=name, **{"judge": "lexical", "minimum": 0.9, **fields})


def test_the_closest_promise_stands() -> None:
    promises = Promises(
        "1 per 60d",
        [
            PlacePromise(environment="staging", false_alarms="1 per 1d"),
            PlacePromise(environment="staging", app="shop", false_alarms="1 per 2d"),
            PlacePromise(app="bank", false_alarms="1 per 90d"),
        ],
    )
    common, own = rule(), rule(false_alarms="1 per 7d")
    found = {
        (environment, app): promises.of(common, environment=environment, app=app)
        for environment in ("production", "staging")
        for app in ("shop", "bank")
    }
    assert found == {
        ("production", "shop"): "1 per 60d",
        ("production", "bank"): "1 per 90d",
        ("staging", "shop"): "1 per 2d",
        ("staging", "bank"): "1 per 1d",
    }
    assert promises.of(own, environment="staging", app="shop") == "1 per 7d"
    with pytest.raises(ValueError, match="app 'bank' of 'production' has two promises"):
        Promises(places=[PlacePromise(app="bank", false_alarms=text) for text in ("1 per 7d", "1 per 8d")])


def test_one_knob_is_shared_by_all_rules_of_an_application_and_said_in_every_alert() -> None:
    rules: list[Rule] = [rule(), rule("low", minimum=0.5), rule("own", false_alarms="1 per 10d"),
             VolumeRule(type="volume", name="volume", judge="lexical")]  # fmt: skip
    promises = Promises("1 per 90d", [PlacePromise(app="bank", false_alarms="1 per 9d")])
    engine = Engine(rules, promises=promises)
    engine.fold([row(0, app="shop"), row(0, app="bank")])
    told: dict[tuple[str, str], Any]
    told = {(one.key.app, one.key.rule): (one.share, one.false_alarms, one.alarm_hours) for one in engine.status()}
    third = pytest.approx(1 / 3)
    assert told["shop", "floor"] == (third, "1 per 90d", pytest.approx(3 * 90 * 24))
    assert told["bank", "floor"] == (third, "1 per 9d", pytest.approx(3 * 9 * 24))
    assert told["shop", "own"] == (third, "1 per 10d", pytest.approx(3 * 10 * 24)), "its part, of its own promise"
    assert told["shop", "volume"] == (1.0, "1 per 90d", 90 * 24), "health has the promise again"
    events = engine.fold([row(1 + k, app="shop", passed=False) for k in range(40)])
    floor = next(event for event in events if event.series.rule == "floor")
    assert floor.evidence["false_alarms"] == "1 per 90d"
    assert "less than one such false alarm in 90 days" in floor.summary


def test_a_back_test_expects_what_is_promised_there() -> None:
    rows = [row(k) for k in range(0, 60 * 24 * 10, 60)]
    (place,) = backtest([rule()], rows, promises=Promises("1 per 100d")).places
    assert place.expected_false_alarms == pytest.approx(place.days / 100)


def quiet_slice_then_months(engine: Engine) -> None:
    """A slice that is near to firing while another one has not had a row for a month."""
    engine.fold([row(0, version="gone")])
    engine.fold(verdicts([0.95] * 60 * 24 * 3, seed=1, first=1, version="stays"))
    engine.fold([row(9_000, version="stays", minute=60 * 24 * 31)])


def test_a_share_that_grows_takes_no_series_nearer_to_firing() -> None:
    engine = Engine([rule(minimum=0.95, group_by=("version",), no_data_after="never", severity="page")])
    quiet_slice_then_months(engine)
    (_, before) = engine.status()
    assert before.share == 0.5
    assert before.evidence > 0.01, "else nothing would be seen of it"
    engine.snapshot(changed_only=True)
    engine.tick(minute(60 * 24 * 31))
    (after,) = engine.status()
    assert after.share == 1.0
    assert after.alarm_hours == before.alarm_hours / 2
    assert after.evidence == pytest.approx(before.evidence), "share x evidence is what the promise is about"
    assert len(engine.snapshot(changed_only=True)) == 2, "the one that is gone, and the one that was scaled"
    successor = Engine(list(engine.rules.values()))
    successor.restore(engine.snapshot())
    assert successor.status()[0].evidence == after.evidence


def test_nor_does_the_share_of_a_rule_that_is_taken_out_of_the_settings() -> None:
    stays = rule(minimum=0.95, severity="page")
    engine = Engine([stays, rule("other", minimum=0.5)])
    engine.fold(verdicts([0.95] * 60 * 24 * 3, seed=1))
    before = next(one for one in engine.status() if one.key.rule == stays.name)
    assert before.share == 0.5
    assert before.evidence > 0.005, "else nothing would be seen of it"
    successor = Engine([stays])
    successor.restore(engine.snapshot())
    (after,) = successor.status()
    assert after.share == 1.0
    assert after.evidence == pytest.approx(before.evidence), "share x evidence is what the promise is about"
    third = Engine([stays])
    third.restore(successor.snapshot())
    assert third.status() == successor.status(), "once"
    same = Engine(list(engine.rules.values()))
    same.restore(engine.snapshot())
    assert same.status() == engine.status()


def test_a_volume_whose_share_grows_is_no_nearer_to_firing_either() -> None:
    volume = VolumeRule(type="volume", name="volume", judge="lexical", group_by=("version",), no_data_after="never")
    engine = Engine([volume, DriftRule(type="drift", name="drift", judge="lexical")])
    engine.fold([row(0, version="gone")])
    hours = range(24 * 31)
    engine.fold(row(1 + h, version="stays", minute=60 * h) for h in hours)
    before = next(one for one in engine.status() if one.key.group == (("version", "stays"),))
    assert before.evidence > 0.0
    engine.tick(minute(60 * 24 * 31))
    after = next(one for one in engine.status() if one.key.group == (("version", "stays"),))
    assert (before.share, after.share) == (0.5, 1.0)
    assert after.evidence == pytest.approx(before.evidence)
