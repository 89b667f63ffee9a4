"""One budget for all quality series of an app: the shares never sum to more than it, and only shrink."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from tracejudge.alerts import DriftRule, MaxDropRule, MinimumRule, Rule, SeriesKey
from tracejudge.alerts.rules.budget import Budget, parts_of

JUDGES, APPS, ENVIRONMENTS = ("faithful", "lexical"), ("shop", "bank"), ("production", "staging")


@st.composite
def rule_lists(draw: st.DrawFn) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    for number in range(draw(st.integers(1, 6))):
        common = {
            "name": f"r{number}",
            "judge": draw(st.sampled_from(JUDGES)),
            "environment": draw(st.sampled_from(ENVIRONMENTS)),
            "app": draw(st.sampled_from([None, *APPS])),
            "group_by": draw(st.sampled_from([(), (), ("category",), ("version", "category")])),
        }
        kind = draw(st.sampled_from(["minimum", "drift", "max_drop"]))
        if kind == "minimum":
            rules.append(MinimumRule.model_validate({**common, "minimum": 0.8}))
        elif kind == "drift":
            rules.append(DriftRule.model_validate({**common, "type": "drift"}))
        else:
            rules.append(MaxDropRule.model_validate({**common, "type": "max_drop", "max_drop": 0.05}))
    return tuple(rules)


@st.composite
def streams(draw: st.DrawFn) -> tuple[tuple[Rule, ...], list[SeriesKey]]:
    """Rules, and series of theirs in the order in which they appear, some under a second JudgeId."""
    rules = draw(rule_lists())
    keys = []
    for _ in range(draw(st.integers(0, 25))):
        rule = draw(st.sampled_from(rules))
        keys.append(
            SeriesKey(
                rule=rule.name,
                environment=rule.environment,
                app=rule.app or draw(st.sampled_from(APPS)),
                judge_name=rule.judge,
                judge_id=f"{rule.judge}@{draw(st.integers(0, 1))}",
                group=tuple((field, draw(st.sampled_from("abcd"))) for field in rule.group_by),
            )
        )
    return rules, keys


@given(streams())
def test_the_shares_of_an_app_sum_to_one_at_most_and_only_shrink(
    stream: tuple[tuple[Rule, ...], list[SeriesKey]],
) -> None:
    rules, keys = stream
    budget = Budget(rules)
    before: dict[SeriesKey, float] = {}
    for key in keys:
        budget.add(key)
        now = {seen: budget.share(seen) for seen in {*before, key}}
        assert all(0.0 < now[seen] <= share for seen, share in before.items())
        sums: defaultdict[tuple[str, str], float] = defaultdict(float)
        one_a_slot = {(seen.rule, seen.environment, seen.app, seen.group): seen for seen in now}
        for seen in one_a_slot.values():
            sums[seen.environment, seen.app] += now[seen]
        assert all(total <= 1.0 + 1e-12 for total in sums.values())
        before = now


@given(rule_lists(), st.sampled_from(APPS), st.sampled_from(ENVIRONMENTS))
def test_the_parts_of_the_rules_sum_to_one_and_half_is_for_those_that_watch_everything(
    rules: tuple[Rule, ...], app: str, environment: str
) -> None:
    parts = parts_of(rules, environment=environment, app=app)
    there = [rule for rule in rules if rule.environment == environment and rule.app in (None, app)]
    assert parts.keys() == {rule.name for rule in there}
    if there:
        assert abs(sum(parts.values()) - 1.0) < 1e-12
    overall = [parts[rule.name] for rule in there if not rule.group_by]
    if overall and len(overall) < len(there):
        assert abs(sum(overall) - 0.5) < 1e-12


def test_a_rule_with_many_slices_takes_nothing_from_the_overall_series() -> None:
    whole = MinimumRule(name="whole", judge="lexical", minimum=0.8)
    sliced = MinimumRule(name="sliced", judge="lexical", minimum=0.8, group_by=("category",))
    budget = Budget((whole, sliced))

    def key(rule: Rule, *group: tuple[str, str]) -> SeriesKey:
        return SeriesKey(
            rule=rule.name, environment="production", app="shop", judge_name="lexical", judge_id="x", group=group
        )

    for number in range(20):
        budget.add(key(sliced, ("category", str(number))))
    assert budget.share(key(whole)) == 0.5
    assert budget.alarm_hours(key(whole), whole) == 2 * 720.0
    assert budget.share(key(sliced, ("category", "3"))) == 0.5 / 20
