"""A pipeline at work in a thread of its own, whose stages a test can wait for."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.records import GROUP, intake
from tracejudge.sampling import SamplingPolicy
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_consumer.limits import PipelineLimits
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.retry_policy import RetryPolicy
from tracejudge_consumer.stages.checkpoints import Stage
from tracejudge_consumer.stages.needs import Judges, PipelineStore

PATIENCE_S = 60.0  # a bound for hangs, never waited for


def quick_limits(**changes: Any) -> PipelineLimits:
    """Small batches, and no waiting that a test would feel."""
    values: dict[str, Any] = {
        "batch_records": 10,
        "batch_wait_s": 0.01,
        "commit_interval_s": 0.001,
        "result_interval_s": 0.001,
        "poll_s": 0.02,
        "store_retry": RetryPolicy(first_s=0.001, longest_s=0.01),
        **changes,
    }
    return PipelineLimits(**values)


def make_pipeline(path: Path, store: PipelineStore, panel: Judges, **changes: Any) -> Pipeline:
    """A pipeline on the log at `path`; `changes` are arguments of Pipeline, or `limits` as a dict, or `group`."""
    limits = changes.pop("limits", {})
    return Pipeline(
        intake=changes.pop("intake", None) or intake(path, changes.pop("group", GROUP)),
        store=store,
        panel=panel,
        policy=changes.pop("policy", None) or SamplingPolicy(),
        limits=quick_limits(**limits),
        **changes,
    )


def run_to_the_end(path: Path, store: PipelineStore, panel: Judges, **changes: Any) -> PipelineReport:
    """Reads the log to its end."""
    return make_pipeline(path, store, panel, **changes).run(until_idle=True)


class Stages:
    """A checkpoint that remembers what was passed, and lets a test wait for it."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._queue: queue.Queue[Stage] = queue.Queue()

    def __call__(self, stage: Stage) -> None:
        self._queue.put(stage)

    def wait_for(self, stage: Stage, times: int = 1) -> None:
        """Returns when `stage` was passed that often in all."""
        while self.seen[stage] < times:
            self.seen[self._queue.get(timeout=PATIENCE_S)] += 1


class Running:
    """`with Running(pipeline) as running:` runs it in a thread and stops it at the end."""

    def __init__(self, pipeline: Pipeline, **run: Any) -> None:
        self._pipeline = pipeline
        self._run = run
        self._report: PipelineReport | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipeline.stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the pipeline did not stop"

    def stop(self, **how: bool) -> PipelineReport:
        """Stops it and gives its report; raises what it raised."""
        self._pipeline.stop(**how)
        return self.result()

    def result(self) -> PipelineReport:
        """Waits until it ends by itself."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the pipeline did not end"
        if self._error is not None:
            raise self._error
        assert self._report is not None
        return self._report

    def _work(self) -> None:
        try:
            self._report = self._pipeline.run(**self._run)
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            self._error = error
