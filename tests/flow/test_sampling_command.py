"""`tracejudge sampling`: what decided about a trace, what another policy would bring, which rates were in force."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tracejudge.alerts.detecting.bets import Bets
from tracejudge.alerts.detecting.detector import DropDetector
from tracejudge.alerts.detecting.sums import Place, Sums
from tracejudge.alerts.detecting.weights import WeightScale
from tracejudge.sampling import Epoch, GovernedRates, epoch_number
from tracejudge.scores import Decision, JudgeId, LedgerRow
from tracejudge.store import SamplingEpoch, Store, StoredTrace
from tracejudge.testing import make_score, make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_UNDECIDED, EXIT_USAGE

WINDOW = ("--since", "2026-01-01T12:00:00Z", "--until", "2026-01-02T12:00:00Z")
JUDGE = JudgeId("dear@0123456789ab")
SETTINGS = """
[[judges]]
name = "dear"
kind = "faithfulness"
model = "m"
base_url = "http://127.0.0.1:1/v1"
max_calls_per_h = 1000
usd_per_million_input_tokens = 1.0
usd_per_million_output_tokens = 2.0
[sampling.judges]
dear = 0.5
[[sampling.strata]]
name = "gold"
when = { field = "tags.tier", is = "gold" }
rate = 1.0
[[sampling.governors]]
name = "budget"
judge = "dear"
max_per_h = 100
[[rules]]
name = "drift"
type = "drift"
judge = "dear"
"""


@pytest.fixture
def config(tmp_path: Path, store_url: str) -> str:
    path = tmp_path / "tracejudge.toml"
    path.write_text(f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n{SETTINGS}')
    return str(path)


def called(capsys: pytest.CaptureFixture[str], *args: str, expect: int = EXIT_DONE) -> str:
    capsys.readouterr()
    assert run(["sampling", *args]) == expect
    return capsys.readouterr().out


def told(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    return json.loads(called(capsys, *args, "--json"))


def insert_epoch(store: Store, minute: int, rates: GovernedRates) -> None:
    starts_at = START + timedelta(minutes=minute)
    epoch = Epoch(number=epoch_number(starts_at), starts_at=starts_at, rates={"budget": rates})
    store.sampling_epochs.insert(
        SamplingEpoch(epoch=epoch.number, starts_at=starts_at, rates=epoch.to_json(), decided_at=starts_at)
    )


def insert_day(store: Store, count: int) -> None:
    """A day of traces, a tenth of them gold, a third of them judged, nine in ten passed."""
    step = timedelta(days=1) / count
    rng = random.Random(1)
    traces = [
        make_trace(n, event_time=START + n * step, tags={"tier": "gold"} if n % 10 == 0 else {}) for n in range(count)
    ]
    store.traces.insert(
        [StoredTrace(trace=one, ingested_at=START, source="t", partition=0, offset=n) for n, one in enumerate(traces)]
    )
    store.scores.insert(
        [
            make_score(
                n,
                passed=rng.random() < 0.9,
                event_time=START + n * step,
                judge_name="dear",
                judge_id=JUDGE,
                inclusion_probability=1 / 3,
            )
            for n in range(0, count, 3)
        ]
    )


def test_a_decision_is_explained_with_its_epoch_and_beside_what_was_stored(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    insert_epoch(store, -5, GovernedRates(scale=0.5))
    insert_epoch(store, 5, GovernedRates(scale=0.1))
    trace = make_trace(1, tags={"tier": "gold"}, head_probability=0.5)
    store.traces.insert([StoredTrace(trace=trace, ingested_at=START)])
    store.scores.insert([make_score(1, judge_name="dear", judge_id=JUDGE, inclusion_probability=0.25)])
    (line,) = told(capsys, "explain", trace.trace_id, "--config", config)
    assert (line["stratum"], line["tail"], line["head"], line["probability"]) == ("gold", 0.5, 0.5, 0.25)
    assert line["rule"].startswith("stratum 'gold': rate 1, lowered by governor 'budget'")
    assert line["kept"] == (line["draw"] < 0.5)
    assert line["epoch_starts_at"] == "2026-01-01T11:55:00.000Z"
    assert (line["stored_probability"], line["stored_outcome"]) == (0.25, "passed")
    text = called(capsys, "explain", trace.trace_id, "--config", config)
    assert "probability 0.25 = head 0.5 x tail 0.5" in text
    assert "policy has changed" not in text
    store.scores.insert([make_score(1, judge_name="dear", judge_id=JUDGE, inclusion_probability=0.1, revision=1)])
    assert "the policy has changed since" in called(capsys, "explain", trace.trace_id, "--config", config)
    assert called(capsys, "explain", "no-such-id", "--config", config, expect=EXIT_USAGE) == ""


def test_epochs_are_listed(store: Store, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no epochs" in called(capsys, "epochs", "--config", config, "--since", "2026-01-01T12:00:00Z")
    insert_epoch(store, 0, GovernedRates(scale=0.5, floors={"gold": 0.3}))
    text = called(capsys, "epochs", "--config", config, "--since", "2026-01-01T12:00:00Z")
    assert "budget" in text
    assert "gold 0.3" in text
    (row,) = told(capsys, "epochs", "--config", config, "--since", "2026-01-01T12:00:00Z")
    assert row["governors"] == {"budget": {"scale": 0.5, "rules": 1.0, "floors": {"gold": 0.3}}}


def test_a_plan_counts_what_the_policy_would_judge(
    store: Store, config: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    insert_day(store, 2400)
    tried = tmp_path / "new.toml"
    gold = '[[sampling.strata]]\nname = "gold"\nrate = 1.0\nwhen = { field = "tags.tier", is = "gold" }\n'
    tried.write_text(f"[sampling]\nrate = 0.2\n{gold}")
    found = told(capsys, "plan", "--config", config, *WINDOW, "--policy", str(tried), "--by", "stratum")
    by_slice = {line["slice"]: line for line in found["lines"]}
    assert found["traces"] == 2400
    assert by_slice[""]["judged_per_day"] == pytest.approx(2160 * 0.2 + 240, rel=0.01)
    assert by_slice["gold"]["judged_per_day"] == pytest.approx(240, rel=0.01)
    # (sum w)^2 / sum w^2 of 432 weights of 5 and 240 of 1.
    assert by_slice[""]["effective_per_day"] == pytest.approx(2400**2 / (432 * 25 + 240), rel=0.01)
    assert by_slice[""]["rate"] == pytest.approx(0.9, abs=0.03)
    assert by_slice[""]["usd_per_day"] > 0
    governed = told(capsys, "plan", "--config", config, *WINDOW, "--per-hour", "10")
    assert governed["lines"][0]["judged_per_day"] == pytest.approx(0.85 * 10 * 24, rel=0.01)
    text = called(capsys, "plan", "--config", config, *WINDOW, "--per-hour", "10")
    assert "cannot detect -5, -1 within a day" in text
    assert "too thin" not in text
    assert "too thin" in called(capsys, "plan", "--config", config, *WINDOW, "--per-hour", "0.5")


def test_how_many_answers_a_judge_can_judge_is_learned_from_the_traffic_of_the_plan(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    insert_day(store, 2400)
    (line, *_) = told(capsys, "plan", "--config", config, *WINDOW, "--per-hour", "10")["lines"]
    nothing_to_judge = [
        LedgerRow(
            environment="production", app="help", version="v1", category="", trace_id=f"h-{n}", event_time=START,
            judge_name="dear", judge_id=JUDGE, decision=Decision.NOT_APPLICABLE, reason="no_context", decided_at=START,
        )
        for n in range(2000)
    ]  # fmt: skip
    store.ledger.insert(nothing_to_judge)
    (same, *_) = told(capsys, "plan", "--config", config, *WINDOW, "--per-hour", "10", "--app", "shop")["lines"]
    assert same["effective_per_day"] == line["effective_per_day"]


def test_traces_whose_texts_are_gone_are_left_out_of_a_plan_that_asks_for_them_and_counted(
    store: Store, config: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    insert_day(store, 2400)
    tried = tmp_path / "new.toml"
    tried.write_text(
        "[sampling]\nrate = 0.2\n"
        '[[sampling.rules]]\nname = "long"\nrate = 1.0\nwhen = { field = "signals.query_chars", above = 3 }\n'
    )
    plan = ("plan", "--config", config, *WINDOW, "--policy", str(tried))
    before = told(capsys, *plan)
    assert before["left_out"] == 0
    assert before["lines"][0]["judged_per_day"] == pytest.approx(2400, rel=0.01)
    gone = "UPDATE query = '', response = NULL, error = NULL, node_texts = [], node_metadata = [], "
    gone += "history_contents = [], reference = NULL WHERE trace_id LIKE '%7' SETTINGS mutations_sync = 2"
    store.command(f"ALTER TABLE traces {gone}")
    after = told(capsys, *plan)
    assert (after["traces"], after["left_out"]) == (2400, 240)
    # Counted as empty questions they would be judged at the rate of short ones.
    for figure in ("traces_per_day", "judged_per_day", "usd_per_day"):
        assert after["lines"][0][figure] == pytest.approx(before["lines"][0][figure], rel=0.01)
    text = " ".join(called(capsys, *plan).split())
    assert "240 of 2400 traces left out: their texts are past their retention" in text
    assert told(capsys, "plan", "--config", config, *WINDOW)["left_out"] == 0, "a policy by tags can still be tried"
    store.command(f"ALTER TABLE traces {gone.replace('%7', '%')}")
    assert run(["sampling", *plan]) == EXIT_UNDECIDED
    assert "try a shorter --since" in capsys.readouterr().err


def test_faults_of_a_tried_policy_are_named(
    store: Store, config: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    insert_day(store, 24)
    tried = tmp_path / "new.toml"
    tried.write_text(
        '[sampling]\n[[sampling.rules]]\nname = "x"\nrate = 1.0\nwhen = { field = "latncy_ms", above = 1 }\n'
    )
    assert run(["sampling", "plan", "--config", config, *WINDOW, "--policy", str(tried)]) == EXIT_USAGE
    error = capsys.readouterr().err
    assert "sampling.rules[0].when.field" in error
    assert "latency_ms" in error


NOWHERE = Place(START, Sums())


def simulated(rate: float, boundary: float, *, per_hour: float, alarm_hours: float, weights: list[float]) -> float:
    """Mean hours until the shipped detector tells of a fall to `rate`, under these weights."""
    total = 0
    for seed in range(40):
        rng = random.Random(seed)
        detector, scale = DropDetector(Bets(boundary)), WeightScale()
        before, n = int(30 * per_hour), 0
        while True:
            passed = rng.random() < (boundary if n < before else rate)
            scaled = scale.next(rng.choice(weights))
            detector.observe(passed=passed, weight=scaled.weight, deff=scaled.deff, hours=1 / per_hour, place=NOWHERE)
            n += 1
            if n == before and detector.evidence_hours > alarm_hours / 2:
                detector.reset()  # an alarm before the fall is not a delay
            if n > before and detector.evidence_hours >= alarm_hours:
                break
        total += n - before
    return total / 40 / per_hour


def test_every_delay_that_is_printed_is_within_a_quarter_of_simulation(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    insert_day(store, 2400)
    (line, *_) = told(capsys, "plan", "--config", config, *WINDOW, "--per-hour", "60")["lines"]
    level, per_hour = line["rate"], line["judged_per_day"] / 24
    # What the governor leaves of gold (rate 1) and the rest (rate 1/2): twice the chance, in the mixture of the judged.
    weights = [1.0] * 2 + [2.0] * 9
    printed = {one["drop"]: one["hours"] for one in line["delays"] if one["hours"] is not None and one["hours"] <= 24}
    assert {None, 0.1, 0.05} <= printed.keys()
    for drop, hours in printed.items():
        rate = 0.0 if drop is None else level - drop
        seen = simulated(rate, level, per_hour=per_hour, alarm_hours=720.0, weights=weights)
        assert hours == pytest.approx(seen, rel=0.25), drop
