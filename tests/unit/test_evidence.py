"""What evidence makes of judged rows: slices that stand out, retrieval or generation, the worst, the track record."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.judged_rows import SHARES, period, row
from tracejudge.alerts import Action, AlertEvent, EventKind, SeriesKey
from tracejudge.evidence import Finding, Reading
from tracejudge.evidence.measures import measures_of
from tracejudge.evidence.reading import read
from tracejudge.evidence.slicing import OTHER, bucket_of, cut
from tracejudge.evidence.standing_out import mix_of, standing_out, without_copies
from tracejudge.evidence.track_record import track_record
from tracejudge.evidence.words import judge_says, record_says
from tracejudge.evidence.worst import worst_traces
from tracejudge.store import JudgedRow
from tracejudge.testing.builders import START
from tracejudge.windows import pass_rate

GOOD = dict.fromkeys(SHARES, 0.96)
CRITERIA = {"context_relevancy": "context_relevancy"}


def findings(before: list[JudgedRow], since: list[JudgedRow]) -> list[Finding]:
    found, _ = standing_out(cut(before, since).attributes)
    return without_copies(found, since)


def reading(before: list[JudgedRow], since: list[JudgedRow], **fields: str) -> Reading:
    return read(before, since, **{"criterion": "faithfulness", "criteria": CRITERIA, **fields})  # type: ignore[arg-type]


def test_a_fall_in_one_category_names_it_and_nothing_else() -> None:
    before = period(2000, GOOD, seed=1)
    since = period(250, {**GOOD, "billing": 0.3}, seed=2)
    (one,) = findings(before, since)
    assert (one.attribute, one.value, one.kind) == ("category", "billing", "within")
    assert one.low < one.contribution < one.high < 0.0
    assert one.share_of_change == pytest.approx(1.0, abs=0.25)


def test_a_fall_everywhere_names_no_slice() -> None:
    for seed in range(10, 20):
        assert findings(period(2000, GOOD, seed=seed), period(250, 0.7, seed=seed + 50)) == []


def test_a_slice_is_named_by_chance_as_rarely_as_promised() -> None:
    """Forty falls of all traffic alike: at one in twenty, 6 or more named would happen once in fifty times."""
    named = [findings(period(400, 0.95, seed=seed), period(100, 0.75, seed=seed + 1000)) for seed in range(100, 140)]
    assert sum(bool(one) for one in named) <= 5


def test_a_release_that_began_with_the_fall_is_named_as_new_even_if_it_began_a_little_earlier() -> None:
    before = period(2000, GOOD, seed=1, version="v41")
    since = period(200, 0.6, seed=2, version="v42")
    (one,) = findings(before, since)
    assert (one.attribute, one.value, one.kind) == ("version", "v42", "new")
    assert one.before is None
    (again,) = findings([*before, *since[:2]], since[2:])
    assert (again.value, again.kind) == ("v42", "new")


def test_a_canary_that_is_worse_is_named_beside_the_old_release() -> None:
    before = period(2000, GOOD, seed=1, version="v41")
    since = [*period(200, GOOD, seed=2, version="v41"), *period(80, 0.3, seed=3, version="v42")]
    first = findings(before, since)[0]
    assert (first.value, first.kind) == ("v42", "new")
    assert 0.2 < first.share_since < 0.4


def test_traffic_that_moves_to_a_worse_category_is_mix_and_neither_half_s_fault() -> None:
    rates = {"billing": 0.5, "shipping": 0.97, "returns": 0.97}
    before = period(2000, rates, seed=1, shares={"billing": 0.1, "shipping": 0.6, "returns": 0.3})
    since = period(300, rates, seed=2, shares={"billing": 0.8, "shipping": 0.1, "returns": 0.1})
    found = findings(before, since)
    assert (found[0].attribute, found[0].value, found[0].kind) == ("category", "billing", "mix")
    assert found[0].share_of_change > 0.7
    assert mix_of(found) == "category"
    told = reading(before, since, mix="category")
    assert told.verdict == "neither"


def test_slices_of_the_same_traces_are_one_finding() -> None:
    def teams(rows: list[JudgedRow]) -> list[JudgedRow]:
        return [
            row(
                k, passed=one.passed, weight=one.weight,
                fields={**one.fields, "tags.team": "money" if one.fields["category"] == "billing" else "goods"},
            )
            for k, one in enumerate(rows)
        ]  # fmt: skip

    before, since = teams(period(2000, GOOD, seed=1)), teams(period(250, {**GOOD, "billing": 0.3}, seed=2))
    (one,) = findings(before, since)
    assert {f"{one.attribute}={one.value}", *one.same_traces_as} == {"category=billing", "tags.team=money"}


def test_ids_are_not_sliced_by_and_many_values_are_bounded() -> None:
    def labelled(rows: list[JudgedRow]) -> list[JudgedRow]:
        return [
            row(k, fields={"tags.request": f"r{k}", "tags.shop": f"s{0 if k % 3 else k % 97}"})
            for k, _ in enumerate(rows)
        ]

    seen = cut(labelled(period(900, GOOD, seed=1)), labelled(period(300, GOOD, seed=2)))
    assert seen.like_ids == ("tags.request",)
    (shop,) = seen.attributes
    assert shop.name == "tags.shop"
    assert len(shop.before) == 21
    assert OTHER in shop.before


def test_a_popular_question_is_one_observation_in_an_interval_and_all_of_itself_in_a_rate() -> None:
    once = [row(k, passed=k % 2 == 0) for k in range(20)]
    copies = [row(40 + k, passed=False, content_hash="the same") for k in range(20)]
    one, many = pass_rate({"": bucket_of(once)}), pass_rate({"": bucket_of([*once, *copies])})
    assert one is not None
    assert many is not None
    assert many.estimate == pytest.approx(0.25)
    assert many.judged == 40
    assert many.n_eff < 5 < one.n_eff


def test_answers_that_got_worse_on_passages_as_relevant_as_before_are_the_generation_s() -> None:
    told = reading(period(2000, 0.95, seed=1), period(200, 0.7, seed=2))
    assert told.verdict == "generation"
    assert told.by == "context_relevancy"
    assert told.says.startswith("generation: passages as relevant as before, answers less faithful")


def test_passages_that_got_irrelevant_are_the_retrieval_s() -> None:
    before = period(2000, 0.96, seed=1, rate_if_irrelevant=0.3)
    since = period(250, 0.96, seed=2, irrelevant=0.6, rate_if_irrelevant=0.3)
    told = reading(before, since)
    assert told.verdict == "retrieval"
    assert told.retrieval is not None
    assert told.generation is not None
    change = told.retrieval.value + told.generation.value
    rates = [pass_rate({"": bucket_of(rows)}) for rows in (before, since)]
    assert change == pytest.approx(rates[1].estimate - rates[0].estimate, abs=1e-9)  # type: ignore[operator, union-attr]


def test_both_halves_may_have_got_worse() -> None:
    before = period(2000, 0.96, seed=1, rate_if_irrelevant=0.3)
    since = period(500, 0.75, seed=2, irrelevant=0.4, rate_if_irrelevant=0.2)
    assert reading(before, since).verdict == "both"


@pytest.mark.parametrize("flipped", [False, True], ids=["similarities", "distances"])
def test_without_a_judge_of_passages_their_scores_tell_whichever_way_they_run(flipped: bool) -> None:
    def turned(rows: list[JudgedRow]) -> list[JudgedRow]:
        sign = -1.0 if flipped else 1.0
        return [
            row(k, passed=one.passed, weight=one.weight,
                signals={"retrieval_score_max": sign * one.signals["retrieval_score_max"]})
            for k, one in enumerate(rows)
        ]  # fmt: skip

    before = period(3000, 0.96, seed=1, irrelevant=0.34, rate_if_irrelevant=0.4, relevancy=False)
    since = period(400, 0.96, seed=2, irrelevant=0.8, rate_if_irrelevant=0.4, relevancy=False)
    told = reading(turned(before), turned(since))
    assert (told.verdict, told.by) == ("retrieval", "retrieval scores")


def test_what_is_not_known_is_not_told() -> None:
    bare = {"relevancy": False, "scores": False}
    nothing = reading(period(500, 0.95, seed=1, **bare), period(200, 0.6, seed=2, **bare))  # type: ignore[arg-type]
    assert nothing.verdict == "cannot_tell"
    assert "no context relevancy judge" in nothing.says
    same = [row(k, passed=k % 9 != 0, signals={"retrieval_score_max": 0.9}) for k in range(200)]
    assert "their passages do not differ in their best retrieval score" in reading(same, same).says
    few = reading(period(500, 0.95, seed=1, scores=False), period(9, 0.1, seed=2, scores=False))
    assert few.verdict == "cannot_tell"
    assert "too few traces" in few.says
    assert reading(period(500, 0.95, seed=1), period(200, 0.6, seed=2), criterion="latency").verdict == "cannot_tell"
    assert reading(period(500, 0.95, seed=1), period(200, 0.6, seed=2), criterion="mrr").verdict == "retrieval"


def test_measures_beside_have_intervals_and_survive_any_number() -> None:
    def scored(first: int, score: float) -> list[JudgedRow]:
        return [
            row(
                first + k,
                signals={"retrieval_score_max": score, "node_count": 3, "refusal": k % 9 == 0},
                others={"x": k % 4 != 0},
            )
            for k in range(60)
        ]

    moved = {one.name: one for one in measures_of(scored(0, 0.8), scored(100, 0.5), {"x": "hit_rate"})}
    assert moved["best retrieval score"].moved
    assert not moved["passages per trace"].moved
    assert not moved["x passes (hit rate)"].moved
    huge = measures_of(scored(0, 1.7e308), scored(100, -1.7e308), {})
    assert "best retrieval score" not in {one.name for one in huge}


def test_the_worst_are_of_the_slice_first_then_lowest_heaviest_latest_and_one_of_each_content() -> None:
    def failed(number: int, *, score: float = 0.1, category: str = "billing", **fields: object) -> JudgedRow:
        return row(number, passed=False, score=score, fields={"category": category}, **fields)

    rows = [
        failed(1, score=0.0, category="shipping"),
        failed(2, score=0.3),
        failed(3, content_hash="c"),
        failed(4, content_hash="c"),
        failed(5, weight=4.0),
        failed(6, signals={"node_count": 0}),
        failed(7, others={"hit_rate": False}),
        row(8, passed=True, score=0.0, fields={"category": "billing"}),
    ]
    before = period(2000, GOOD, seed=1)
    finding = findings(before, period(250, {**GOOD, "billing": 0.3}, seed=2))[0]
    worst = worst_traces(rows, finding, judges=["hit_rate"])
    assert [one.trace_id for one in worst] == ["t-5", "t-7", "t-6", "t-4", "t-2"]
    assert "stands for 4 traces" in worst[0].why
    assert "also failed by hit_rate" in worst[1].why
    assert "nothing was retrieved" in worst[2].why
    assert worst_traces(rows, None)[0].trace_id == "t-1"


def event(
    number: int, kind: EventKind = "firing", *, day: float, rule: str = "drift", **evidence: object
) -> AlertEvent:
    series = SeriesKey(rule=rule, environment="production", app="shop", judge_name="j", judge_id="j@0")
    return AlertEvent(
        event_id=f"e{number}", series=series, kind=kind, severity="ticket", heuristic=False,
        at=START + timedelta(days=day), summary="", evidence=evidence,
    )  # fmt: skip


def test_what_is_known_of_the_judge_is_told_with_its_age() -> None:
    assert judge_says(event(1, day=0)) is None
    assert judge_says(event(1, day=0, judge={"state": "steady"})) is None
    known = {"state": "steady", "n": 30, "at": "2026-11-29T13:20:00+01:00"}
    said = judge_says(event(1, day=0, judge=known))
    assert said is not None
    assert said.startswith("steady by its 30 anchors of 2026-11-29 12:20 UTC; a later move would not be visible here")
    said = judge_says(event(1, day=0, judge={**known, "state": "moved"}))
    assert said == "it had moved according to its 30 anchors of 2026-11-29 12:20 UTC: the fall may be the judge's"


def test_the_track_record_counts_what_people_said() -> None:
    events = [
        event(1, day=5),
        event(2, "resolved", day=6, fired_event_id="e1", closed_because="dismissed"),
        event(3, day=20, rule="other"),
        event(4, "resolved", day=21, fired_event_id="e3", closed_because="accepted"),
        event(5, day=30),
        event(6, day=50),
        event(7, day=90),  # after the one told about
    ]
    mark = Action(
        action_id="a",
        verb="mark",
        matchers={"app": "shop"},
        start=START + timedelta(days=29),
        end=START + timedelta(days=31),
        at=START,
    )
    now = event(8, day=61)
    record = track_record(now, [*events, now], [mark], watched=timedelta(days=61), promise_days=30)
    assert (record.alerts, record.dismissed, record.real, record.unjudged) == (4, 1, 2, 1)
    assert (record.of_rule, record.dismissed_of_rule) == (3, 1)
    assert record.per_promise == pytest.approx(30 / 61)
    assert record.low == pytest.approx(0.0253 * 30 / 61, rel=0.01)
    assert record.high == pytest.approx(7.2247 * 30 / 61, rel=0.01), "nobody judged one of them: it may have been false"
    assert "measured 0.49 (0.012 to 3.6) in 30 days, over 61 days watched" in record_says(record, app="shop")


def test_a_rule_that_promises_nothing_is_measured_in_thirty_days() -> None:
    now = event(8, day=60)
    record = track_record(now, [event(1, day=5), now], [], watched=timedelta(days=60), promise_days=None)
    assert (record.promised, record.promise_days, record.per_promise) == (False, 30.0, 0.0)
    assert record_says(record, app="shop").startswith("this rule promises nothing about false alarms; measured 0 (0 to")


def test_alerts_that_share_no_promise_with_a_rule_do_not_count_against_it() -> None:
    events = [
        event(1, day=5, rule="hourly", type="threshold"),
        event(2, "resolved", day=6, rule="hourly", fired_event_id="e1", closed_because="dismissed"),
        event(3, day=7, rule="traffic", type="volume"),
        event(4, day=8, rule="slow", type="minimum", measure="latency_ms"),
        event(5, day=9, type="drift"),
    ]
    now = event(8, day=60)
    record = track_record(now, [*events, now], [], watched=timedelta(days=60), promise_days=30)
    assert (record.alerts, record.dismissed, record.per_promise) == (1, 0, 0.0)
    now = event(9, day=60, rule="hourly", type="threshold")
    record = track_record(now, [*events, now], [], watched=timedelta(days=60), promise_days=None)
    assert (record.alerts, record.dismissed, record.per_promise) == (1, 1, 0.5)


def test_too_short_a_history_measures_nothing() -> None:
    now = event(8, day=4)
    record = track_record(now, [event(1, day=1), now], [], watched=timedelta(days=4), promise_days=30)
    assert record.per_promise is record.low is record.high is None
    assert "not enough history to measure it: 4.0 days watched" in record_says(record, app="shop")
