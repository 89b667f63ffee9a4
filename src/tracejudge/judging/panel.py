"""The judges run together on a batch, through LlamaIndex's BatchEvalRunner."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from tracejudge.clock import Clock
from tracejudge.judging.spec import JudgeSpec
from tracejudge.judging.tasks import JudgeTask, PanelResult, SpendSource
from tracejudge.scores import LIVE_RUN, JudgeId


class Panel:
    """Judges batches of traces. Usable from any event loop; one instance may serve overlapping `evaluate` calls."""

    def __init__(
        self,
        specs: Sequence[JudgeSpec],
        *,
        clock: Clock,
        spend: SpendSource,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._clock = clock
        self._spend = spend
        self._environ = environ

    @property
    def judge_ids(self) -> Mapping[str, JudgeId]:
        """Judge name to JudgeId."""
        return {name: spec.judge_id() for name, spec in self._specs.items()}

    async def evaluate(self, tasks: Sequence[JudgeTask], *, run_id: str = LIVE_RUN) -> PanelResult:
        """Judges each task by the judges it names; every (task, judge) ends in exactly one of scores or ledger."""
        raise NotImplementedError

    async def close(self) -> None:
        """Closes the connections that belong to the running event loop."""
