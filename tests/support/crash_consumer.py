"""A consumer process that kills itself (kill -9) exactly between two stages.

    python -m tests.support.crash_consumer SETTINGS.json

Runs a scripted panel on a real queue and store. Each question to a judge is a line in `asked`, written before the
answer, so that what was bought can be counted over all processes. Prints its report as JSON when it ends by itself;
SIGTERM stops it in order.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tests.support.kafka.process import GuardedProcess
from tests.support.running_pipeline import quick_limits
from tests.support.scripted_panel import ScriptedPanel
from tracejudge.judging import JudgeTask, PanelResult
from tracejudge.sampling import SamplingPolicy
from tracejudge.scores import LIVE_RUN
from tracejudge.store import open_store
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_consumer.intake import Intake
from tracejudge_consumer.intake.sqlite import SqliteIntake
from tracejudge_consumer.stages.checkpoints import Stage
from tracejudge_sdk.transports import KafkaQueue, SqliteQueue, parse_queue_url
from tracejudge_sdk.transports.sqlite_log import SqliteLog

KILLED = -signal.SIGKILL


@dataclass(frozen=True, kw_only=True)
class CrashSettings:
    """What one process does. `kill_at` is (stage, which passing of it, from 1), or None to go to the end."""

    queue: str
    store: str
    group: str
    asked: str
    kill_at: tuple[Stage, int] | None = None
    until_idle: bool = True
    sampling: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    queue_options: dict[str, Any] = field(default_factory=dict)


def start(settings: CrashSettings, folder: Path, name: str) -> GuardedProcess:
    """Starts such a process; its output goes to `name`.log in `folder`."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(asdict(settings)), encoding="utf-8")
    return GuardedProcess(
        [sys.executable, "-W", "ignore", "-m", "tests.support.crash_consumer", str(path)], folder / f"{name}.log"
    )


def asked_in(path: Path) -> Counter[str]:
    """How often each trace was put to a judge, over all processes."""
    return Counter(path.read_text(encoding="utf-8").split()) if path.exists() else Counter()


class LoggingPanel(ScriptedPanel):
    """Writes down each trace before it is judged."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        # Appends of one short line are atomic, so processes may share the file.
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def evaluate(self, tasks: Sequence[JudgeTask], *, run_id: str = LIVE_RUN) -> PanelResult:
        for task in tasks:
            os.write(self._file, f"{task.trace.trace_id}\n".encode())
        return await super().evaluate(tasks, run_id=run_id)


class KillAt:
    """A checkpoint that is fatal at one passing of one stage."""

    def __init__(self, stage: Stage, passing: int) -> None:
        self._stage = stage
        self._left = passing
        self._lock = threading.Lock()

    def __call__(self, stage: Stage) -> None:
        with self._lock:
            self._left -= stage == self._stage
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def run(settings: CrashSettings) -> None:
    """One life of the consumer."""
    stop = threading.Event()

    def on_term(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_term)
    with open_store(settings.store) as store:
        pipeline = Pipeline(
            intake=_intake(settings),
            store=store,
            panel=LoggingPanel(Path(settings.asked)),
            policy=SamplingPolicy.model_validate(settings.sampling),
            limits=quick_limits(**settings.limits),
            checkpoint=KillAt(*settings.kill_at) if settings.kill_at else lambda stage: None,
        )
        report = pipeline.run(until_idle=settings.until_idle, stop=stop)
    print(json.dumps({"records": report.records, "settled": report.settled, "ended": report.ended}))


def _intake(settings: CrashSettings) -> Intake:
    queue = parse_queue_url(settings.queue)
    if isinstance(queue, SqliteQueue):
        # After a kill the next life waits for the lease of the former one.
        return SqliteIntake(SqliteLog(queue.path), group=settings.group, lease_ttl_s=1.0)
    assert isinstance(queue, KafkaQueue)
    from tracejudge_consumer.intake.kafka import KafkaIntake

    return KafkaIntake(queue.bootstrap_servers, queue.topic, group=settings.group, options=settings.queue_options)


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    given["kill_at"] = tuple(given["kill_at"]) if given["kill_at"] else None
    run(CrashSettings(**given))
