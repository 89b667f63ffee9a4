"""kill -9 exactly between two stages, then a new start: as if nothing had happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.crash_consumer import KILLED, CrashSettings, asked_in, start
from tests.support.memory_store import MemoryStore
from tests.support.records import append, committed
from tests.support.running_pipeline import run_to_the_end
from tests.support.scripted_panel import ScriptedPanel
from tracejudge.sampling import SamplingPolicy
from tracejudge.scores import Decision
from tracejudge.store import ScoreFilter, TraceFilter, open_store
from tracejudge.testing import make_trace
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.stages.checkpoints import Stage
from tracejudge_sdk.trace import Record

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

GROUP = "crash"
SAMPLING = {"rules": [], "strata": [{"name": "v2", "when": {"field": "version", "is": "v2"}, "rate": 0.5}]}
LIMITS = {"batch_records": 10, "max_in_flight_records": 30}
PATIENCE_S = 90.0


def records() -> list[Record | bytes]:
    """60 traces, half of them sampled at a half, one broken off, one sent twice; and two records nobody can read."""
    traces: list[Record | bytes] = [make_trace(n, version="v2" if n % 2 else "v1") for n in range(60)]
    traces[7] = make_trace(7, status="incomplete")
    return [*traces[:20], b"{", *traces[20:], make_trace(3, version="v2"), b"\xff"]


class Lives:
    """The lives of one consumer on one queue and one store."""

    def __init__(self, folder: Path, store_url: str) -> None:
        self.folder = folder
        self.queue = folder / "queue.db"
        self.store_url = store_url
        self.asked = folder / "asked.txt"
        self.limits: dict[str, int] = LIMITS
        self._count = 0

    def live(self, kill_at: tuple[Stage, int] | None) -> None:
        """Runs until it kills itself, or to the end of the queue."""
        self._count += 1
        settings = CrashSettings(
            queue=f"sqlite:///{self.queue}",
            store=self.store_url,
            group=GROUP,
            asked=str(self.asked),
            kill_at=kill_at,
            sampling=SAMPLING,
            limits=self.limits,
        )
        process = start(settings, self.folder, f"life{self._count}")
        status = process.wait(PATIENCE_S)
        output = (self.folder / f"life{self._count}.log").read_text()
        assert status == (KILLED if kill_at else 0), output


def undisturbed(folder: Path) -> tuple[PipelineReport, MemoryStore]:
    """What one run without any fault makes of the same records."""
    append(folder / "calm.db", records())
    store = MemoryStore()
    policy = SamplingPolicy.model_validate(SAMPLING)
    return run_to_the_end(folder / "calm.db", store, ScriptedPanel(), policy=policy), store


def assert_as_undisturbed(lives: Lives) -> None:
    calm, expected = undisturbed(lives.folder)
    with open_store(lives.store_url) as store:
        scores = [score for batch in store.scores.stream(ScoreFilter()) for score in batch]
        assert {(s.trace_id, s.judge_id): (s.outcome, s.event_time, s.inclusion_probability) for s in scores} == {
            (s.trace_id, s.judge_id): (s.outcome, s.event_time, s.inclusion_probability)
            for s in expected.scores.rows.values()
        }
        assert len(scores) == len(expected.scores.rows), "one score per trace and judge"
        assert store.traces.count(TraceFilter()) == len(expected.traces.rows) == 60
        assert len(store.dead_letters.all()) == len(expected.dead_letters.rows) == 2
        begin = make_trace(0).event_time.replace(minute=0)
        (line,) = store.ledger.equation(begin, begin.replace(hour=begin.hour + 2))
        assert (line.traces, line.unaccounted) == (60, 0)
        assert (line.passed, line.failed, line.invalid) == (calm.passed, calm.failed, 0)
        assert {d: n for d, n in line.decisions.items() if n} == dict(calm.ledger)
        assert line.decisions[Decision.INCOMPLETE] == 1
    assert committed(lives.queue, GROUP) == len(records())


@pytest.fixture
def lives(tmp_path: Path, store_url: str) -> Lives:
    # This process owns the store: what dies here is a consumer (owners that die: tests/contract/test_store_processes).
    append(tmp_path / "queue.db", records())
    return Lives(tmp_path, store_url)


@pytest.mark.parametrize("stage", ["traces_stored", "judged"])
def test_a_kill_between_two_stages_leaves_one_score_per_trace_and_the_totals_of_an_undisturbed_run(
    stage: Stage, lives: Lives
) -> None:
    lives.live((stage, 2))
    assert (committed(lives.queue, GROUP) or 0) < len(records())
    lives.live(None)
    assert_as_undisturbed(lives)


def test_b30_after_a_crash_with_three_of_ten_stored_the_others_are_judged_and_those_three_not_again(
    tmp_path: Path, store_url: str
) -> None:
    append(tmp_path / "queue.db", [make_trace(n) for n in range(10)])
    lives = Lives(tmp_path, store_url)
    lives.limits = {"batch_records": 1, "max_in_flight_records": 1}  # one after the other
    lives.live(("results_stored", 3))
    first = asked_in(lives.asked)
    assert (committed(lives.queue, GROUP) or 0) <= 3
    with open_store(store_url) as store:
        settled = {score.trace_id for batch in store.scores.stream(ScoreFilter()) for score in batch}
        assert len(settled) == 3
        lives.live(None)
        asked = asked_in(lives.asked)
        assert {name: asked[name] for name in settled} == {name: first[name] for name in settled}
        assert len(asked) == 10
        assert sum(store.scores.count(ScoreFilter(outcome=one)) for one in ("passed", "failed")) == 10
    assert committed(lives.queue, GROUP) == 10


@pytest.mark.slow
def test_what_was_settled_before_a_kill_is_never_put_to_a_judge_again(lives: Lives) -> None:
    """Killed at every stage in turn, on one store."""
    kills: list[tuple[Stage, int]] = [("traces_stored", 2), ("judged", 1), ("scores_stored", 2), ("committed", 1)]
    settled: dict[str, int] = {}  # trace: how often it had been asked when it was found settled
    for kill in [*kills, None]:
        lives.live(kill)
        asked = asked_in(lives.asked)
        assert {trace: asked[trace] for trace in settled} == settled
        with open_store(lives.store_url) as store:
            found = [score.trace_id for batch in store.scores.stream(ScoreFilter()) for score in batch]
        settled = {trace: asked[trace] for trace in found}
    assert_as_undisturbed(lives)
    assert max(settled.values()) <= 1 + len(kills)
