"""`tracejudge compare` of two pipelines on the same questions, and what it refuses."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.workplace import Workplace
from tracejudge.scores import JudgeId, Label, Score
from tracejudge.store import RegisteredJudge, Store, StoredTrace
from tracejudge.testing import make_score, make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.terminal.exit_status import EXIT_FAILED, EXIT_UNDECIDED, EXIT_USAGE

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

CASES = 200
RELEVANCY = JudgeId("relevant@000000000000")


@pytest.fixture
def at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store_url: str
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    settings = f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n'
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    return Workplace(tmp_path, capsys, settings)


def answers(version: str, passed: list[bool], *, first: int, judge_id: str = "lexical@000000000000") -> list[Score]:
    return [
        make_score(first + n, passed=good, version=version, judge_id=JudgeId(judge_id)) for n, good in enumerate(passed)
    ]


def fill(store: Store, *, judge_b: str = "lexical@000000000000") -> int:
    """v1 passes three of four questions; v2 the same ones, but for a tenth that it loses. Returns how many it loses."""
    chance = random.Random(5)
    before = [n % 4 != 0 for n in range(CASES)]
    lost = [good and chance.random() < 0.1 for good in before]
    after = [good and not gone for good, gone in zip(before, lost, strict=True)]
    for version, first in (("v1", 0), ("v2", 1000)):
        traces = [make_trace(first + n, version=version, case_id=f"case-{n}") for n in range(CASES)]
        traces.append(make_trace(first + 500, version=version))  # ordinary traffic, of no case
        store.traces.insert([StoredTrace(trace=trace, ingested_at=START) for trace in traces])
    store.scores.insert(answers("v1", before, first=0))
    store.scores.insert(answers("v2", after, first=1000, judge_id=judge_b))
    store.scores.insert(answers("v1", [True], first=500) + answers("v2", [True], first=1500, judge_id=judge_b))
    return sum(lost)


def test_two_versions_are_paired_by_the_question(at: Workplace, store: Store) -> None:
    lost = fill(store)
    found = at.json("compare", "v1", "v2", "--cases")
    counts = found["comparison"]["agreement"]["counts"]
    assert found["comparison"]["pairs"] == CASES
    assert (counts["only_a_passed"], counts["only_b_passed"]) == (lost, 0)
    assert found["in_words"][0].startswith("B's answers pass less often than A's on these questions")
    assert (found["only_a"], found["only_b"]) == (0, 0)
    shown = at("compare", "v1", "v2", "--cases", "--judge", "lexical")
    assert f"{CASES} questions settled by both" in shown


def test_a_canary_is_compared_on_its_own_traffic(at: Workplace, store: Store) -> None:
    lost = fill(store)
    found = at.json("compare", "v1", "v2", "--by", "version")
    (line,) = found["unpaired"]
    assert line["difference"]["value"] == pytest.approx(-lost / (CASES + 1))
    assert line["difference"]["low"] < line["difference"]["value"] < line["difference"]["high"]
    shown = at("compare", "v1", "v2", "--by", "version")
    assert "Different traces on each side" in shown
    assert "release check v2 --against v1" in shown
    shown = at(
        "compare", "v1", "v2", "--by", "version", "--environment", "production", "--since", "2020-01-01T00:00:00Z"
    )
    assert "release check v2 --against v1 --environment production --since 2020-01-01T00:00:00+00:00" in shown
    assert "no scores in this time range" in at("compare", "v1", "v9", "--by", "version", expect=EXIT_UNDECIDED)


def test_an_answer_given_again_stands_in_its_latest_form(at: Workplace, store: Store) -> None:
    fill(store)
    again = make_trace(5000, version="v2", case_id="case-0")
    store.traces.insert([StoredTrace(trace=again, ingested_at=START)])
    store.scores.insert(answers("v2", [True], first=5000))
    counts = at.json("compare", "v1", "v2", "--cases")["comparison"]["agreement"]["counts"]
    assert counts["only_b_passed"] == 1  # case-0 failed under both; now v2 passes it


def test_labels_are_of_each_versions_own_answer(at: Workplace, store: Store) -> None:
    fill(store)
    labels = [
        Label(
            environment="production", app="shop", trace_id=f"t-{first + n:06d}", criterion="faithfulness",
            value=float(n % 4 != 0), source="ann", labelled_at=START,
        )
        for first in (0, 1000) for n in range(40)
    ]  # fmt: skip
    store.labels.insert(labels)
    found = at.json("compare", "v1", "v2", "--cases", "--criterion", "faithfulness")["comparison"]
    assert found["a"]["labelled"]["counts"] == {"good_passed": 30, "good_failed": 0, "bad_passed": 0, "bad_failed": 10}
    assert found["b"]["labelled"]["counts"]["bad_failed"] == 10
    assert found["correct"]["counts"]["both_passed"] + found["correct"]["counts"]["only_a_passed"] == 40


def test_void_comparisons_are_refused_with_the_way_out(at: Workplace, store: Store) -> None:
    fill(store, judge_b="lexical@111111111111")
    assert "tracejudge replay" in at("compare", "v1", "v2", "--cases", expect=EXIT_FAILED)
    assert "release check v3 --against v1" in at("compare", "v1", "v3", "--cases", expect=EXIT_UNDECIDED)
    assert "name two versions" in at("compare", "v1", "v1", "--cases", expect=EXIT_USAGE)
    assert "live:lexical" in at("compare", "live:", "live:lexical", expect=EXIT_USAGE), "what stands behind the colon"
    assert "name two runs" in at("compare", "live:lexical", "live:lexical", expect=EXIT_USAGE)
    at("compare", "live:lexical", "live:relevant", "--judge", "x", expect=EXIT_USAGE)
    assert "no scores by a judge 'typo'; by: lexical" in at("compare", "live:lexical", "live:typo", expect=EXIT_USAGE)


def test_judges_of_different_things_are_not_compared_unless_one_says_by_what(at: Workplace, store: Store) -> None:
    fill(store)
    store.scores.insert(
        [make_score(n, judge_name="relevant", judge_id=RELEVANCY, passed=n % 3 != 0) for n in range(CASES)]
    )
    specs = {
        "lexical": {"name": "lexical", "kind": "lexical"},
        "relevant": {"name": "relevant", "kind": "lexical", "measures": "relevancy"},
    }
    store.judges.register(
        [
            RegisteredJudge(
                judge_name=name, judge_id=JudgeId(f"{name}@000000000000"), spec=spec, heuristic=True,
                registered_at=START + timedelta(hours=1),
            )
            for name, spec in specs.items()
        ]
    )  # fmt: skip
    refused = at("compare", "live:lexical", "live:relevant", expect=EXIT_FAILED)
    assert "measures faithfulness" in refused
    assert "measures relevancy" in refused
    at("compare", "live:lexical", "live:relevant", "--criterion", "faithfulness")


def test_answers_of_two_environments_are_not_mixed(at: Workplace, store: Store) -> None:
    """The latest answer of any would stand for the version: a broken staging for production."""
    fill(store)
    staging = [
        make_trace(2000 + n, version="v2", case_id=f"case-{n}", environment="staging", event_time=START)
        for n in range(CASES)
    ]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=START) for trace in staging])
    store.scores.insert(
        [
            make_score(trace_id=one.trace_id, event_time=START, environment="staging", version="v2", passed=False)
            for one in staging
        ]
    )
    told = at("compare", "v1", "v2", "--cases", expect=EXIT_FAILED)
    assert "version 'v2' answered these questions in several places (shop in production, shop in staging)" in told
    assert at.json("compare", "v1", "v2", "--cases", "--environment", "production")["comparison"]["pairs"] == CASES
