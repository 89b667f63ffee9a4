"""A rule that cannot be kept is refused with the field, the value, the limit and the remedy."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from tracejudge.alerts import HEALTH_RULE, MinimumRule, Promises, effective_severity
from tracejudge.alerts.durations import parse_duration, parse_false_alarms


def rule(**fields: Any) -> MinimumRule:
    return MinimumRule.model_validate({"name": "quality", "judge": "faithfulness", "minimum": 0.8, **fields})


@pytest.mark.parametrize(
    ("text", "days"), [("1 per 30d", 30), ("2 per 30d", 15), ("1 per 4w", 28), (" 1  per 48 h ", 2), ("1 per 1440m", 1)]
)
def test_the_knob_is_a_number_of_false_alarms_per_duration(text: str, days: float) -> None:
    assert parse_false_alarms(text) == timedelta(days=days)
    one = rule(false_alarms=text)
    assert Promises().hours(one, environment="production", app="shop") == 24 * days


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("one a month", "write it as '1 per 30d'"),
        ("0 per 30d", "write it as '1 per 30d'"),
        ("1 per 0d", "'24h'"),
        ("1 per 30 days", "write it as"),
        ("31 per 30d", "between one a day"),
        ("1 per 5000d", "'1 per 3650d'"),
        ("-1 per 30d", "write it as"),
    ],
)
def test_a_knob_that_means_nothing_is_refused_with_the_remedy(text: str, says: str) -> None:
    with pytest.raises(ValidationError, match="false_alarms") as caught:
        rule(false_alarms=text)
    assert says in str(caught.value)


@pytest.mark.parametrize("minimum", [0.0, 1.0, -0.1, 1.5, float("nan"), float("inf")])
def test_a_minimum_that_no_rate_can_miss_or_keep_is_refused(minimum: float) -> None:
    with pytest.raises(ValidationError, match="minimum"):
        rule(minimum=minimum)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": HEALTH_RULE}, "choose another name"),
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"group_by": ["version", "version"]}, "name each field once"),
        ({"group_by": ["user_id"]}, "group_by"),
        ({"no_data_after": "1m"}, "limit of 5 minutes"),
        ({"no_data_after": "soon"}, "such as '24h'"),
        ({"severity": "siren"}, "severity"),
        ({"min_effective_samples": 0}, "min_effective_samples"),
        ({"type": "max_drop"}, "type"),
        ({"treshold": 0.8}, "treshold"),
    ],
)
def test_other_faults_name_the_field(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        rule(**fields)
    assert says in str(caught.value)


def test_defaults_are_production_every_app_a_ticket_once_in_thirty_days() -> None:
    plain = rule()
    assert plain.environment == "production"
    assert plain.app is None
    assert plain.severity == "ticket"
    assert Promises().hours(plain, environment="production", app="shop") == 720
    assert plain.silence_limit == timedelta(days=1)
    assert rule(no_data_after="never").silence_limit is None


def test_a_rule_watches_its_judge_and_environment_and_every_app_unless_it_names_one() -> None:
    assert rule().watches(environment="production", app="shop", judge_name="faithfulness")
    assert not rule().watches(environment="staging", app="shop", judge_name="faithfulness")
    assert not rule().watches(environment="production", app="shop", judge_name="lexical")
    assert not rule(app="shop").watches(environment="production", app="bank", judge_name="faithfulness")


@pytest.mark.parametrize("text", ["", "h", "0h", "1.5h", "1 y", "99999999d", "٣h"])
def test_durations_are_whole_and_have_a_unit(text: str) -> None:
    with pytest.raises(ValueError, match="write a whole number"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("fields", "heuristic", "severity"),
    [
        ({"severity": "page"}, True, "ticket"),
        ({"severity": "page"}, False, "page"),
        ({"severity": "page", "heuristic_may_page": True}, True, "page"),
        ({}, True, "ticket"),
    ],
)
def test_a_judge_without_a_model_pages_only_where_the_rule_allows_it(
    fields: dict[str, Any], heuristic: bool, severity: str
) -> None:
    assert effective_severity(rule(**fields), heuristic=heuristic) == severity
