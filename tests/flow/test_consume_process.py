"""`tracejudge consume` as a process: what SIGTERM finishes, what it leaves, and what a second one does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.judge_reply import JudgeRequest, Reply
from tests.support.judge_server import JudgeServer
from tests.support.kafka.process import GuardedProcess
from tests.support.records import append, committed
from tracejudge.store import ScoreFilter, Store, open_store
from tracejudge.testing import make_trace
from tracejudge_consumer.terminal.exit_status import EXIT_UNAVAILABLE

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

PATIENCE_S = 60.0
YES = Reply('{"unsupported": [], "verdict": "YES"}')
GROUP = "tracejudge"


class Slow:
    """A judge that answers about the first ten traces, and about the others once `awake` is set."""

    def __init__(self) -> None:
        self.awake = threading.Event()

    def __call__(self, request: JudgeRequest) -> Reply:
        quick = any(f"plan {number} " in request.prompt for number in range(10))
        return YES if quick or self.awake.is_set() else Reply(YES.content, hang=True)


@pytest.fixture
def judge() -> Slow:
    return Slow()


@pytest.fixture
def server(judge: Slow) -> Iterator[JudgeServer]:
    with JudgeServer(judge) as running:
        yield running


class Consumer:
    """The command in a folder of its own."""

    def __init__(self, folder: Path, store_url: str, server: JudgeServer) -> None:
        self.folder = folder
        self.queue = folder / "queue.db"
        self._store_url = store_url
        self._server = server
        self._lives = 0

    def start(self, *options: str, drain_timeout_s: float) -> GuardedProcess:
        self._lives += 1
        settings = self.folder / "tracejudge.toml"
        settings.write_text(
            f"""\
queue = "sqlite:///queue.db"
store = "{self._store_url}"

[consumer]
drain_timeout_s = {drain_timeout_s}
batch_wait_s = 0.05
commit_interval_s = 0.05

[[judges]]
name = "faithful"
kind = "faithfulness"
base_url = "{self._server.base_url}"
model = "judge"
max_calls_per_h = 10000
concurrency = 50
timeout_s = 600
""",
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "tracejudge_consumer.cli", "consume", "--config", str(settings), *options]
        return GuardedProcess(command, self.folder / f"life{self._lives}.log")

    def scored(self, store: Store) -> set[str]:
        return {score.trace_id for batch in store.scores.stream(ScoreFilter()) for score in batch}


@pytest.fixture
def consumer(tmp_path: Path, store_url: str, server: JudgeServer) -> Consumer:
    append(tmp_path / "queue.db", [make_trace(n) for n in range(30)])
    return Consumer(tmp_path, store_url, server)


def test_sigterm_finishes_what_it_can_within_its_limit_and_leaves_the_rest(
    consumer: Consumer, server: JudgeServer, judge: Slow, store_url: str
) -> None:
    process = consumer.start(drain_timeout_s=1.0)
    server.wait_for(lambda stats: stats.calls >= 30, timeout_s=PATIENCE_S)
    process.ask_to_end()
    assert process.wait(PATIENCE_S) == 0, (consumer.folder / "life1.log").read_text()
    assert committed(consumer.queue, GROUP) == 10, "the end of what is finished"
    with open_store(store_url) as store:
        assert len(consumer.scored(store)) == 10
        judge.awake.set()
        again = consumer.start(drain_timeout_s=30.0)
        server.wait_for(lambda stats: stats.calls >= 50, timeout_s=PATIENCE_S)
        again.ask_to_end()
        assert again.wait(PATIENCE_S) == 0
        assert len(consumer.scored(store)) == 30
    assert committed(consumer.queue, GROUP) == 30
    assert server.stats.calls == 50, "what was settled is not bought again"


def test_a_queue_that_was_not_read_to_its_end_is_not_done(consumer: Consumer, server: JudgeServer) -> None:
    process = consumer.start("--until-idle", drain_timeout_s=1.0)
    server.wait_for(lambda stats: stats.calls >= 30, timeout_s=PATIENCE_S)
    process.ask_to_end()
    said = consumer.folder / "life1.log"
    assert process.wait(PATIENCE_S) == EXIT_UNAVAILABLE, said.read_text()
    assert "before the end of the queue" in said.read_text()


def test_a_second_signal_stops_at_once(consumer: Consumer, server: JudgeServer) -> None:
    """With ten minutes to finish it in."""
    process = consumer.start(drain_timeout_s=600.0)
    server.wait_for(lambda stats: stats.calls >= 30, timeout_s=PATIENCE_S)
    process.ask_to_end()
    # Two signals of a kind that meet are one: the second is sent until the first has been taken.
    ended = None
    for _ in range(int(PATIENCE_S)):
        process.ask_to_end()
        ended = process.wait(1.0)
        if ended is not None:
            break
    assert ended == 130
    assert (committed(consumer.queue, GROUP) or 0) <= 10
