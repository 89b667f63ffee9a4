"""Panels, specs and tasks for tests of judging, of which a test names only what it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tracejudge.clock import Clock
from tracejudge.judging import JudgeSpec, JudgeTask, NothingSpent, Panel, RunCaps, SpendSource
from tracejudge.judging.calls.client import Completer
from tracejudge.testing import ManualClock, make_trace
from tracejudge_sdk.trace import Trace

YES = '{"unsupported": [], "verdict": "YES"}'
NO = '{"unsupported": ["The limit is twelve."], "verdict": "NO"}'


def llm_spec(name: str = "faithful", **fields: Any) -> JudgeSpec:
    """A faithfulness judge by a model that nobody calls over a network in unit tests."""
    values: dict[str, Any] = {
        "name": name,
        "kind": "faithfulness",
        "base_url": "http://127.0.0.1:9/v1",
        "model": "judge",
        "max_calls_per_h": 1_000_000,
    }
    return JudgeSpec.model_validate({**values, **fields})


def lexical_spec(name: str = "lexical", **fields: Any) -> JudgeSpec:
    return JudgeSpec.model_validate({"name": name, "kind": "lexical", **fields})


class Sleeps:
    """A sleep that only notes how long it was asked for, and moves a manual clock by as much."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.waits_s: list[float] = []
        self._clock = clock

    async def __call__(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        if self._clock is not None:
            self._clock.advance(seconds)


def make_panel(
    specs: JudgeSpec | Sequence[JudgeSpec],
    judge: Completer | Callable[[JudgeSpec], Completer] | None = None,
    *,
    clock: Clock | None = None,
    spend: SpendSource | None = None,
    caps: RunCaps | None = None,
    sleep: Sleeps | None = None,
    patience_s: float = 0.0,
) -> Panel:
    """A panel whose models are `judge`, on a clock that stands still, with back-off that takes no time."""
    make = judge if judge is None or callable(judge) else lambda spec: judge
    return Panel(
        [specs] if isinstance(specs, JudgeSpec) else specs,
        clock=clock or ManualClock(),
        spend=spend or NothingSpent(),
        environ={},
        caps=caps,
        patience_s=patience_s,
        make_completer=make,
        sleep=sleep or Sleeps(),
    )


def make_task(trace: Trace | int, *judges: str, stratum: str = "", probability: float = 1.0) -> JudgeTask:
    """`trace` (or the healthy trace of that number) for `judges`, "faithful" by default."""
    trace = make_trace(trace) if isinstance(trace, int) else trace
    names = judges or ("faithful",)
    return JudgeTask(
        trace=trace,
        judge_names=frozenset(names),
        stratum=stratum,
        inclusion_probability=dict.fromkeys(names, probability),
        event_time=trace.event_time,
    )


def make_tasks(numbers: Iterable[int], *judges: str) -> list[JudgeTask]:
    return [make_task(number, *judges) for number in numbers]
