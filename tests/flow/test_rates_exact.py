"""Rates from every row: copies of a content count once an hour, and strata by their sizes where these are known."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tracejudge.reports import RateLine, read_rates
from tracejudge.scores import Decision, JudgeId, LedgerRow, Outcome, Score
from tracejudge.store import RateQuery, Store, StoredTrace
from tracejudge.testing import make_score, make_trace
from tracejudge.testing.builders import START
from tracejudge.windows import PassRate, pass_rate, wilson
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE

JUDGE = JudgeId("lexical@000000000000")
QUERY = RateQuery(start=START, end=START + timedelta(hours=1), judge="lexical")


def insert(store: Store, *, head: float = 1.0) -> list[Score]:
    """300 traces: a third "bad" (rate .5, judged at .1), the rest (rate .95) judged at .5; all left out by the hash."""
    rng = random.Random(1)
    traces, scores, ledger = [], [], []
    for n in range(900):
        bad = n % 3 == 0
        chance = 0.1 if bad else 0.5
        traces.append(make_trace(n, head_probability=head))
        if rng.random() < chance:
            scores.append(
                make_score(
                    n,
                    passed=rng.random() < (0.5 if bad else 0.95),
                    stratum="bad" if bad else "",
                    inclusion_probability=chance * head,
                    content_hash=f"c{n}",
                )
            )
        else:
            ledger.append(row(n, Decision.SAMPLED_OUT, stratum="bad" if bad else "", inclusion_probability=chance))
    store.traces.insert([StoredTrace(trace=one, ingested_at=START) for one in traces])
    store.scores.insert(scores)
    store.ledger.insert(ledger)
    return scores


def row(number: int, decision: Decision, **fields: object) -> LedgerRow:
    trace = make_trace(number)
    values = {"judge_name": "lexical", "judge_id": JUDGE, "decision": decision, "decided_at": START, **fields}
    return LedgerRow(
        environment="production",
        app="shop",
        version="v1",
        category="",
        trace_id=trace.trace_id,
        event_time=trace.event_time,
        **values,  # type: ignore[arg-type]  # fields of a row
    )


def rate_of(store: Store, *, exact: bool) -> tuple[RateLine, PassRate]:
    (line,) = read_rates(store, QUERY, exact=exact)
    assert line.rate is not None
    return line, line.rate


def test_known_sizes_make_the_interval_narrower(store: Store) -> None:
    insert(store)
    _, plain = rate_of(store, exact=False)
    line, exact = rate_of(store, exact=True)
    assert line.stratified
    (row_of_bad, row_of_rest) = sorted(store.scores.buckets(QUERY), key=lambda one: one.stratum, reverse=True)
    expected = pass_rate(
        {"bad": row_of_bad.bucket, "": row_of_rest.bucket}, traces_by_stratum={"bad": 300.0, "": 600.0}
    )
    assert exact == expected
    assert exact.n_eff > 1.1 * plain.n_eff
    assert (exact.judged, exact.passed) == (plain.judged, plain.passed)


@pytest.mark.parametrize(
    "unknown", [Decision.NOT_APPLICABLE, Decision.OVER_BUDGET, Decision.UNDECIDED, "head", "judges"]
)
def test_where_sizes_are_not_known_the_weights_decide(store: Store, unknown: Decision | str) -> None:
    scores = insert(store, head=0.5 if unknown == "head" else 1.0)
    if isinstance(unknown, Decision):
        store.ledger.insert([row(2000, unknown)])
    if unknown == "judges":
        store.scores.insert([replace(scores[0], judge_id=JudgeId("lexical@111111111111"))])
    lines = read_rates(store, QUERY, exact=True)
    assert not any(line.stratified for line in lines)
    plain = {line.judge_id: line.rate for line in read_rates(store, QUERY)}
    for line in lines:
        assert line.rate is not None
        assert line.rate.estimate == pytest.approx(plain[line.judge_id].estimate)  # type: ignore[union-attr]


def test_filtered_traces_belong_to_no_stratum(store: Store) -> None:
    insert(store)
    before, _ = rate_of(store, exact=True)
    store.ledger.insert([row(2000, Decision.FILTERED, inclusion_probability=0.0)])
    after, _ = rate_of(store, exact=True)
    assert before == after


def test_copies_within_the_hour_are_one_observation(store: Store) -> None:
    """Sixty answers, forty of them copies of one failure: the rate counts all, the interval knows of 21 contents."""
    store.scores.insert([make_score(n, passed=n >= 40, content_hash="same" if n < 40 else f"c{n}") for n in range(60)])
    _, plain = rate_of(store, exact=False)
    _, exact = rate_of(store, exact=True)
    assert exact.estimate == plain.estimate == pytest.approx(1 / 3)
    assert (exact.judged, exact.passed, exact.represents) == (60, 20, 60.0)
    assert plain.n_eff == pytest.approx(60)
    # Kish of weights 40 and twenty times 1, and the variance of q = 1/3 over these: the smaller one.
    variance = ((1 / 3) ** 2 * 40**2 + 20 * (2 / 3) ** 2) / 60**2
    assert exact.n_eff == pytest.approx(min(60**2 / (40**2 + 20), (2 / 9) / variance))
    assert exact.low == pytest.approx(wilson(1 / 3, exact.n_eff).low)
    # Rows without a hash are never copies.
    store.scores.insert([make_score(n, passed=False, content_hash="") for n in range(100, 140)])
    (line,) = read_rates(store, QUERY, exact=True)
    assert line.rate is not None
    assert line.rate.n_eff == pytest.approx(100**2 / (40**2 + 20 + 40))


def test_the_command_says_where_a_rate_is_stratified(
    store: Store, store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    insert(store)
    path = tmp_path / "tracejudge.toml"
    path.write_text(f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n')
    window = ("--since", "2026-01-01T12:00:00Z", "--until", "2026-01-01T13:00:00Z")
    assert run(["rates", "--config", str(path), *window, "--step", "all", "--exact"]) == EXIT_DONE
    assert "stratified: the sizes of all strata are known in windows of lexical" in capsys.readouterr().out


def test_far_fewer_effective_samples_than_judged_ones_are_explained(
    store: Store, store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tracejudge.toml"
    config.write_text(f'queue = "sqlite:///q.db"\nstore = "{store_url}"\n')
    window = ("--since", "2026-01-01T12:00:00Z", "--until", "2026-01-01T13:00:00Z", "--step", "all", "--exact")
    for copies, told in ((1, False), (40, True)):
        store.scores.insert(
            [make_score(n, passed=n >= copies, content_hash="same" if n < copies else f"c{n}") for n in range(60)]
        )
        capsys.readouterr()
        assert run(["rates", "--config", str(config), *window, "--app", make_score(0).app]) == EXIT_DONE
        assert ("n_eff is less than half of judged" in capsys.readouterr().out) is told
        store.command("TRUNCATE TABLE scores")


def test_people_are_shown_the_exact_figures_unless_the_window_is_too_large(
    store: Store, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    insert(store)
    config = tmp_path / "tracejudge.toml"
    config.write_text(f'queue = "sqlite:///q.db"\nstore = "{store_url}"\n')
    window = ("--since", START.isoformat(), "--until", (START + timedelta(hours=1)).isoformat(), "--step", "all")
    shown = []
    for limit in (900, 899):
        monkeypatch.setattr("tracejudge.reports.rates.MOST_TRACES_READ", limit)
        capsys.readouterr()
        assert run(["rates", "--config", str(config), *window]) == EXIT_DONE
        shown.append(capsys.readouterr().out)
    assert "stratified" in shown[0]
    assert "from per-minute sums" not in shown[0]
    assert "from per-minute sums" in shown[1]


def test_a_slice_counts_its_own_traces_and_not_those_of_others(
    store: Store, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten traces of acme, judged; ten of others, of which a budget cut all off: that is not acme's coverage."""
    traces = [make_trace(n, tags={"tenant": "acme" if n < 10 else "other"}) for n in range(20)]
    store.traces.insert([StoredTrace(trace=one, ingested_at=START) for one in traces])
    store.scores.insert([make_score(n) for n in range(11)])
    store.ledger.insert([row(n, Decision.OVER_BUDGET) for n in range(11, 20)])
    cut = {line.group["tags.tenant"]: line.over_budget for line in read_rates(store, by_tenant())}
    assert cut == {"acme": 0, "other": 9}
    for tenant, over_budget in cut.items():
        (line,) = read_rates(store, replace(QUERY, also={"tags.tenant": tenant}))
        assert line.over_budget == over_budget
    config = tmp_path / "tracejudge.toml"
    config.write_text(f'queue = "sqlite:///q.db"\nstore = "{store_url}"\n')
    monkeypatch.setattr("tracejudge.reports.rates.MOST_TRACES_READ", 15)
    window = ("--since", START.isoformat(), "--until", QUERY.end.isoformat(), "--step", "all")
    for tenant, low in (("acme", False), ("other", True)):
        assert run(["rates", "--config", str(config), *window, "--where", f"tags.tenant={tenant}"]) == EXIT_DONE
        said = capsys.readouterr().out
        assert ("coverage low" in said) is low
        assert "from per-minute sums" not in said, "the ten of a tenant are few, whatever else there is"
    assert run(["rates", "--config", str(config), *window, "--where", "tags.tenat=acme"]) == EXIT_DONE
    assert "no trace in this time range has tags.tenat = 'acme'" in capsys.readouterr().out


def test_where_a_judge_failed_on_many_coverage_is_low(
    store: Store, store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tracejudge.toml"
    config.write_text(f'queue = "sqlite:///q.db"\nstore = "{store_url}"\n')
    window = ("--since", START.isoformat(), "--until", QUERY.end.isoformat(), "--step", "all")
    store.scores.insert([make_score(n) for n in range(80)])
    for failed, low in ((20, False), (21, True)):
        broken = [make_score(n) for n in range(100, 100 + failed)]
        store.scores.insert([replace(one, outcome=Outcome.INVALID, score=None, reason="unparsable") for one in broken])
        assert run(["rates", "--config", str(config), *window]) == EXIT_DONE
        said = capsys.readouterr().out
        assert (f"coverage low: lexical failed to judge {failed} traces" in said) is low
        assert run(["report", "--config", str(config), *window[:4], "--html", str(tmp_path / "r.html")]) == EXIT_DONE
        capsys.readouterr()
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert (f"The judge failed on {failed} traces" in page) is low


def by_tenant() -> RateQuery:
    return replace(QUERY, group_by=("tags.tenant",))
