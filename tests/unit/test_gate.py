"""The gate blocks what is worse, passes what is noise, and says when it cannot tell."""

from __future__ import annotations

import html
import json
import random
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tracejudge.errors import CheckFailed, SettingsError
from tracejudge.gate import (
    Check,
    Decided,
    GateResult,
    RunVerdicts,
    Thresholds,
    Verdict,
    decide,
    junit_xml,
    markdown,
    of_run,
    of_runs,
    of_scores,
    read_baseline,
    read_rows,
    write_baseline,
)
from tracejudge.scores import JudgeId, Outcome
from tracejudge.testing import make_score

JUDGE = "faithfulness"


def run_of(
    outcomes: list[Outcome | None], *, judge_id: str = f"{JUDGE}@1", dataset: str = "d", **more: Any
) -> RunVerdicts:
    verdicts = tuple(
        Verdict(
            case=f"case-{number}",
            judge_name=JUDGE,
            judge_id=judge_id,
            outcome=outcome,
            slices={"app": "shop", "version": "", "category": "odd" if number % 2 else "even"},
        )
        for number, outcome in enumerate(outcomes)
    )
    return RunVerdicts(dataset=dataset, verdicts=verdicts, **more)


def passing(passed: int, failed: int, invalid: int = 0) -> list[Outcome | None]:
    return [*[Outcome.PASSED] * passed, *[Outcome.FAILED] * failed, *[Outcome.INVALID] * invalid]


def thresholds(*limits: dict[str, Any], **more: Any) -> Thresholds:
    return Thresholds.model_validate({"thresholds": [{"judge": JUDGE, **limit} for limit in limits], **more})


def test_a_rate_below_the_minimum_beyond_doubt_fails_and_one_above_passes() -> None:
    asked = thresholds({"minimum": 0.8})
    assert decide(asked, run_of(passing(60, 40)), None).decided is Decided.FAILED
    assert decide(asked, run_of(passing(95, 5)), None).decided is Decided.PASSED
    near = decide(asked, run_of(passing(78, 22)), None)
    assert near.decided is Decided.PASSED
    assert near.checks[0].words == "no evidence that it is worse"
    strict = decide(thresholds({"minimum": 0.8}, strict=True), run_of(passing(82, 18)), None)
    assert strict.decided is Decided.UNDECIDED


@pytest.mark.parametrize(
    ("policy", "decided"), [("undecided", Decided.UNDECIDED), ("pass", Decided.PASSED), ("fail", Decided.FAILED)]
)
def test_too_few_cases_are_decided_by_policy_and_told(policy: str, decided: Decided) -> None:
    result = decide(thresholds({"minimum": 0.8}, too_few=policy), run_of(passing(3, 9)), None)
    assert result.decided is decided
    assert "not enough evidence: 12 settled cases, 20 needed" in result.checks[0].words


def test_a_slice_is_held_to_its_own_minimum() -> None:
    outcomes: list[Outcome | None] = [Outcome.FAILED if number % 2 else Outcome.PASSED for number in range(200)]
    asked = thresholds({"minimum": 0.9, "where": {"category": "odd"}}, {"minimum": 0.9, "where": {"category": "even"}})
    odd, even = decide(asked, run_of(outcomes), None).checks
    assert (odd.decided, even.decided) == (Decided.FAILED, Decided.PASSED)
    assert odd.cases == 100


def test_invalid_verdicts_are_in_no_rate_and_have_a_limit_of_their_own() -> None:
    run = run_of(passing(90, 0, 60))
    minimum, invalid = decide(thresholds({"minimum": 0.8, "max_invalid": 0.1}), run, None).checks
    assert (minimum.decided, minimum.cases) == (Decided.PASSED, 90)
    assert (invalid.decided, invalid.cases) == (Decided.FAILED, 150)
    assert invalid.estimate is not None
    assert invalid.estimate.value == pytest.approx(0.4)
    (diluted,) = decide(thresholds({"max_invalid": 0.1}), run_of([*passing(90, 0, 60), *[None] * 900]), None).checks
    assert (diluted.decided, diluted.cases) == (Decided.FAILED, 150), "who was not asked was not judged well either"


def test_a_pass_that_hangs_on_what_could_not_be_judged_is_undecided() -> None:
    (check,) = decide(thresholds({"minimum": 0.8}), run_of(passing(90, 0, 60)), None).checks
    assert check.decided is Decided.UNDECIDED
    assert check.words.startswith("60 of 150 could not be judged, and had they failed, so would this")
    (few,) = decide(thresholds({"minimum": 0.8}), run_of(passing(90, 5, 3)), None).checks
    assert few.decided is Decided.PASSED
    assert few.words.endswith("; 3 of 98 could not be judged")
    (bad,) = decide(thresholds({"minimum": 0.8}), run_of(passing(20, 70, 60)), None).checks
    assert bad.decided is Decided.FAILED


def test_a_fall_is_not_hidden_by_a_judge_that_declines_what_got_worse() -> None:
    before = run_of(passing(100, 0))
    now = run_of(passing(70, 0, 30))
    (check,) = decide(thresholds({"max_drop": 0.03}), now, of_run(before)).checks
    assert check.decided is Decided.UNDECIDED
    assert "30 of 100 could not be judged" in check.words
    accepted = decide(thresholds({"max_drop": 0.03, "max_invalid": 0.5}), now, of_run(before))
    assert accepted.decided is Decided.PASSED


def test_a_latency_budget_is_kept_or_not_or_was_not_measured() -> None:
    asked = thresholds({"minimum": 0.1}, max_latency_p95_ms=800)
    good = passing(50, 0)
    assert decide(asked, run_of(good, latency_p95_ms=700.0), None).decided is Decided.PASSED
    assert decide(asked, run_of(good, latency_p95_ms=900.0), None).decided is Decided.FAILED
    assert decide(asked, run_of(good), None).decided is Decided.UNDECIDED


def flipped(outcomes: list[Outcome | None], *, down: int, up: int, seed: int) -> list[Outcome | None]:
    """The same with `down` passes failed and `up` failures passed, at random places."""
    rng = random.Random(seed)
    changed = list(outcomes)
    for wanted, other, count in ((Outcome.PASSED, Outcome.FAILED, down), (Outcome.FAILED, Outcome.PASSED, up)):
        for place in rng.sample([k for k, outcome in enumerate(outcomes) if outcome is wanted], count):
            changed[place] = other
    return changed


def test_a_planted_regression_is_blocked_and_noise_of_the_same_size_passes() -> None:
    """Over 200 seeds: 24 of 300 verdicts change, all for the worse, or as many each way give or take chance."""
    before = passing(240, 60)
    baseline = of_run(run_of(before))
    asked = thresholds({"max_drop": 0.03})
    blocked = passed = 0
    for seed in range(200):
        rng = random.Random(1000 + seed)
        bad = sum(rng.random() < 0.1 for _ in range(240))
        noise = sum(rng.random() < 0.5 for _ in range(24))
        worse = decide(asked, run_of(flipped(before, down=bad, up=0, seed=seed)), baseline)
        same = decide(asked, run_of(flipped(before, down=noise, up=24 - noise, seed=seed)), baseline)
        blocked += worse.decided is Decided.FAILED
        passed += same.decided is Decided.PASSED
    assert blocked >= 180, blocked
    assert passed >= 190, passed


def drawn(chances: list[float], rng: random.Random) -> RunVerdicts:
    """A run in which each case passes with a chance of its own."""
    return run_of([Outcome.PASSED if rng.random() < chance else Outcome.FAILED for chance in chances])


def test_the_noise_of_constant_code_passes_and_a_regression_beyond_it_is_blocked() -> None:
    """200 seeds: 200 cases of which a fifth are decided by a coin at each run; then a tenth of the passes is lost."""
    chances = [1.0] * 140 + [0.5] * 40 + [0.0] * 20
    asked = thresholds({"max_drop": "noise"})
    blocked = passed = 0
    for seed in range(200):
        rng = random.Random(seed)
        baseline = of_runs([drawn(chances, rng) for _ in range(5)])
        same = decide(asked, drawn(chances, rng), baseline)
        lost = set(rng.sample(range(140), 28))
        worse = decide(asked, drawn([0.0 if n in lost else c for n, c in enumerate(chances)], rng), baseline)
        passed += same.decided is Decided.PASSED
        blocked += worse.decided is Decided.FAILED
    assert passed >= 190, passed
    assert blocked >= 180, blocked
    assert "the same code moves by up to" in worse.checks[0].words


def test_noise_needs_several_runs_of_one_dataset_and_judge() -> None:
    one = run_of(passing(50, 0))
    with pytest.raises(SettingsError, match="several runs at constant code"):
        decide(thresholds({"max_drop": "noise"}), one, of_run(one))
    with pytest.raises(CheckFailed, match="same JudgeIds throughout"):
        of_runs([one, run_of(passing(50, 0), judge_id=f"{JUDGE}@2")])
    # A case that never flipped may flip once: that alone is no proof.
    lucky = of_runs([one, one, one])
    assert decide(thresholds({"max_drop": "noise"}), run_of(passing(49, 1)), lucky).decided is Decided.PASSED
    assert decide(thresholds({"max_drop": "noise"}), run_of(passing(46, 4)), lucky).decided is Decided.FAILED


def test_one_case_id_in_two_apps_is_two_cases(tmp_path: Path) -> None:
    def of(shop: Outcome, desk: Outcome) -> RunVerdicts:
        both = (("shop", shop), ("desk", desk))
        verdicts = [
            Verdict(case=f"c-{n}", judge_name=JUDGE, judge_id=f"{JUDGE}@1", outcome=outcome, slices={"app": app})
            for n in range(40) for app, outcome in both
        ]  # fmt: skip
        return RunVerdicts(dataset="d", verdicts=tuple(verdicts))

    write_baseline(tmp_path / "b.json", of_run(of(Outcome.PASSED, Outcome.FAILED)))
    baseline = read_baseline(tmp_path / "b.json")
    (same,) = decide(thresholds({"max_drop": 0.02}), of(Outcome.PASSED, Outcome.FAILED), baseline).checks
    assert (same.cases, same.changed, same.decided) == (80, (), Decided.PASSED)
    (worse,) = decide(thresholds({"max_drop": 0.02}), of(Outcome.FAILED, Outcome.FAILED), baseline).checks
    assert (worse.decided, worse.changed[0]) == (Decided.FAILED, "shop/c-0")


def test_a_judge_that_moved_on_its_anchors_decides_no_fall() -> None:
    before, good = passing(100, 0), run_of(passing(50, 50), dataset="anchors")
    baseline = of_runs([run_of(before)], [good])
    asked, after = thresholds({"max_drop": 0.02, "minimum": 0.5}), run_of(flipped(before, down=30, up=0, seed=1))
    steady = decide(asked, after, baseline, anchors=good)
    assert [check.decided for check in steady.checks] == [Decided.PASSED, Decided.PASSED, Decided.FAILED]
    stricter = run_of(passing(20, 80), dataset="anchors")
    moved = decide(asked, after, baseline, anchors=stricter)
    assert {check.kind: check.decided for check in moved.checks} == {
        "anchors": Decided.UNDECIDED, "minimum": Decided.PASSED, "max_drop": Decided.UNDECIDED,
    }  # fmt: skip
    assert moved.decided is Decided.UNDECIDED
    assert "the judge moved" in moved.checks[2].words
    for run_anchors, base in ((None, baseline), (good, of_run(run_of(before)))):
        with pytest.raises(CheckFailed, match="--anchors"):
            decide(asked, after, base, anchors=run_anchors)


def test_the_cases_that_got_worse_are_named() -> None:
    before = passing(100, 0)
    after = flipped(before, down=30, up=0, seed=1)
    (check,) = decide(thresholds({"max_drop": 0.02}), run_of(after), of_run(run_of(before))).checks
    assert check.decided is Decided.FAILED
    assert set(check.changed) == {f"case-{k}" for k, outcome in enumerate(after) if outcome is Outcome.FAILED}


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (run_of(passing(50, 0), dataset="other"), "of another dataset"),
        (run_of(passing(50, 0), judge_id=f"{JUDGE}@2"), f"was {JUDGE}@1 and is {JUDGE}@2 now"),
    ],
)
def test_a_void_comparison_is_refused_with_the_way_out(run: RunVerdicts, words: str) -> None:
    baseline = of_run(run_of(passing(50, 0)))
    with pytest.raises(CheckFailed, match=words) as caught:
        decide(thresholds({"max_drop": 0.02}), run, baseline)
    assert "--update-baseline" in str(caught.value)


def test_lines_without_an_id_are_told_why_another_answer_is_another_case() -> None:
    run = run_of(passing(50, 0), dataset="other")
    nameless = replace(run, verdicts=tuple(replace(one, case=f"line-{k}") for k, one in enumerate(run.verdicts)))
    asked, baseline = thresholds({"max_drop": 0.02}), of_run(run_of(passing(50, 0)))
    with pytest.raises(CheckFailed, match="give every line a case_id"):
        decide(asked, nameless, baseline)
    with pytest.raises(CheckFailed, match=r"give every line a trace_id that stays.*`tracejudge score`"):
        decide(asked, replace(nameless, stored=True), baseline)
    with pytest.raises(CheckFailed) as named:
        decide(asked, run, baseline)
    assert "case_id" not in str(named.value)


def test_a_missing_baseline_and_an_unknown_judge_are_refused() -> None:
    with pytest.raises(SettingsError, match="needs a baseline"):
        decide(thresholds({"max_drop": 0.02}), run_of(passing(50, 0)), None)
    asked = Thresholds.model_validate({"thresholds": [{"judge": "relevancy", "minimum": 0.5}]})
    with pytest.raises(SettingsError, match="has no verdicts in this run, which has: faithfulness"):
        decide(asked, run_of(passing(50, 0)), None)


def test_a_baseline_file_says_what_it_was_made_of(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    baseline = of_run(run_of([Outcome.PASSED, Outcome.FAILED, Outcome.INVALID, None]))
    write_baseline(path, baseline)
    assert read_baseline(path) == baseline
    for text, words in (("{", "is not JSON"), ('{"format": 1}', "format 1"), ('{"format": 2}', "is not a baseline")):
        path.write_text(text)
        with pytest.raises(SettingsError, match=words):
            read_baseline(path)
    with pytest.raises(SettingsError, match="No such file"):
        read_baseline(tmp_path / "none.json")


def test_rows_are_read_with_the_latency_of_their_manifest(tmp_path: Path) -> None:
    rows, manifest = tmp_path / "x.scores.jsonl", tmp_path / "x.scores.jsonl.manifest.json"
    row = {"trace_id": "t", "case_id": "c", "judge": JUDGE, "judge_id": f"{JUDGE}@1", "outcome": "passed"}
    rows.write_text(json.dumps(row) + "\n" + json.dumps({**row, "case_id": None, "outcome": "not_applicable"}) + "\n")
    assert read_rows(rows).latency_p95_ms is None
    manifest.write_text(json.dumps({"engine": {"latency_ms": {"p95": 12.5}}}))
    run = read_rows(rows)
    assert run.latency_p95_ms == 12.5
    assert [(v.case, v.outcome) for v in run.verdicts] == [("c", Outcome.PASSED), ("t", None)]
    manifest.write_text(json.dumps({"engine": None}))
    assert read_rows(rows).latency_p95_ms is None
    manifest.write_text("[]")
    with pytest.raises(CheckFailed, match="is not a manifest"):
        read_rows(rows)
    rows.write_text("{}\n")
    with pytest.raises(SettingsError, match="line 1 is not a row"):
        read_rows(rows)


def test_a_dataset_is_its_cases_whatever_was_answered(tmp_path: Path) -> None:
    row = {"trace_id": "t", "judge": JUDGE, "judge_id": f"{JUDGE}@1", "outcome": "passed"}
    one, other = tmp_path / "1", tmp_path / "2"
    one.write_text(json.dumps(row) + "\n")
    other.write_text(json.dumps({**row, "outcome": "failed"}) + "\n")
    assert read_rows(one).dataset == read_rows(other).dataset


def test_the_dataset_of_a_stored_run_is_its_cases_in_any_order() -> None:
    scores = [make_score(number) for number in range(5)]
    assert of_scores(scores).dataset == of_scores(reversed(scores)).dataset
    assert of_scores(scores).dataset != of_scores(scores[1:]).dataset


def test_markdown_reads_as_the_names_were_written() -> None:
    rows = run_of(passing(90, 10))
    result = decide(thresholds({"minimum": 0.5, "where": {"app": "shop"}}), rows, None)
    check = replace(result.checks[0], name="my_judge app=my_app & #1 at least 50 %")
    text = markdown(replace(result, checks=(check,)))
    assert check.name in html.unescape(text)
    assert "my_judge" not in text, "an underscore is markup"


def test_two_judges_of_one_name_are_no_measurement() -> None:
    scores = [make_score(1), make_score(2, judge_id=JudgeId("lexical@222222222222"))]
    with pytest.raises(CheckFailed, match="several JudgeIds"):
        of_scores(scores)


def test_junit_and_markdown_hold_no_markup_of_a_case() -> None:
    run = run_of(passing(100, 0))
    hostile = RunVerdicts(
        dataset="d",
        verdicts=tuple(
            Verdict(
                case=f"<b>|`{number}\x1b", judge_name=JUDGE, judge_id=f"{JUDGE}@1", outcome=outcome, slices={"app": ""}
            )
            for number, outcome in enumerate(flipped(passing(100, 0), down=40, up=0, seed=2))
        ),
    )
    base = RunVerdicts(
        dataset="d",
        verdicts=tuple(
            Verdict(case=v.case, judge_name=JUDGE, judge_id=v.judge_id, outcome=Outcome.PASSED, slices={"app": ""})
            for v in hostile.verdicts
        ),
    )
    result = decide(thresholds({"max_drop": 0.02}), hostile, of_run(base))
    suite = ElementTree.fromstring(junit_xml(result))  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    text = markdown(result)
    assert "<b>" not in text
    assert "\x1b" not in text
    assert "and 20 more" in text
    first = min(check.changed[0] for check in result.checks)
    assert html.unescape(text).count(first.replace("\x1b", " ")) == 1, "and reads as it was written"
    undecided = decide(thresholds({"minimum": 0.5}, min_cases=1000), run, None)
    assert ElementTree.fromstring(junit_xml(undecided)).get("errors") == "1"  # noqa: S314 - our own


@pytest.mark.parametrize(
    "limits", [{}, {"minimum": 1.5}, {"minimum": 80}, {"max_drop": -0.1}, {"where": {"color": "x"}, "minimum": 0.5}]
)
def test_limits_that_cannot_be_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        thresholds(limits)


def test_a_case_that_a_file_has_twice_is_refused(tmp_path: Path) -> None:
    """Of two verdicts a baseline would keep the last, and the file then differ from itself."""
    row = {"trace_id": "t", "case_id": "c", "app": "shop", "judge": JUDGE, "judge_id": f"{JUDGE}@1"}
    rows = tmp_path / "rows.jsonl"
    lines = [{**row, "outcome": "passed"}, {**row, "trace_id": "u", "outcome": "failed"}]
    rows.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(SettingsError, match=r"1 case has several verdicts.*'c' of app 'shop'.*a case_id of its own"):
        read_rows(rows)


def test_a_case_s_name_notifies_nobody_and_links_to_nothing() -> None:
    failed = Check(
        kind="max_drop", name="n", judge_name=JUDGE, decided=Decided.FAILED, estimate=None, limit=0.1, cases=1,
        words="worse",
        changed=("c @acme/everyone https://evil.test www.evil.test `x` </code> #1",),
    )  # fmt: skip
    text = markdown(GateResult(decided=Decided.FAILED, checks=(failed,)))
    assert text.count("<code>") == text.count("</code>") == 1
    assert "https:" not in text
    assert "www." not in text


@pytest.mark.parametrize("content", [b"\x00PAR1\xff\xfe\n", b"[" * 200_000, b'{"trace_id": ' + b"9" * 5_000 + b"}"])
def test_a_file_of_something_else_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match="is not a row of"):
        read_rows(file)
    with pytest.raises(SettingsError, match="is not JSON"):
        read_baseline(file)


def test_a_deep_manifest_is_refused_in_words(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"case_id": "c", "judge": JUDGE, "judge_id": f"{JUDGE}@1", "outcome": "passed"}))
    (tmp_path / "rows.jsonl.manifest.json").write_text("[" * 200_000)
    with pytest.raises(CheckFailed, match="is not a manifest"):
        read_rows(rows)


def test_half_a_character_in_a_case_costs_no_baseline(tmp_path: Path) -> None:
    """The file was emptied, and the baseline that it held lost."""
    rows, baseline = tmp_path / "rows.jsonl", tmp_path / "baseline.json"
    row = {"case_id": "c\ud83d", "judge": JUDGE, "judge_id": f"{JUDGE}@1", "outcome": "passed"}
    rows.write_text(json.dumps(row))
    write_baseline(baseline, of_run(read_rows(rows)))
    assert read_baseline(baseline).outcomes == of_run(read_rows(rows)).outcomes
