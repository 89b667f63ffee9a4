"""Rules tried on made-up traffic: what one expects of them, written down and checked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from tracejudge.alerts.engine import Engine
from tracejudge.alerts.event import AlertEvent, Severity
from tracejudge.alerts.promise import Promises
from tracejudge.alerts.rule import AnyRule
from tracejudge.scores import InvalidReason, JudgeId, Outcome, Score

_START: Final = datetime(2026, 1, 5, tzinfo=timezone.utc)
_MOST_ROWS: Final = 2_000_000


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Stretch(_Part):
    """So many hours of traffic with one pass rate. `invalid` is the share that the judge could not judge."""

    hours: Annotated[float, Field(gt=0, le=24 * 365)]
    rate: Annotated[float, Field(ge=0, le=1)]
    per_hour: Annotated[float, Field(ge=0, le=100_000)] = 60.0
    invalid: Annotated[float, Field(ge=0, le=1)] = 0.0


class Expected(_Part):
    """An event of a rule that must come, in order; `after_h` and `before_h` are hours since the beginning."""

    rule: str
    kind: Literal["firing", "escalated", "resolved"]
    severity: Severity | None = None
    after_h: Annotated[float, Field(ge=0)] = 0.0
    before_h: float | None = None


class Trial(_Part):
    """One stream, and all the events that it must give, in order; none means silence. `only`: of these rules alone."""

    name: Annotated[str, Field(min_length=1)]
    stretches: Annotated[tuple[Stretch, ...], Field(min_length=1)]
    expect: tuple[Expected, ...] = ()
    only: tuple[str, ...] = ()
    seed: int = 1
    judge: str = "lexical"
    app: str = "app"
    environment: str = "production"


class TrialFile(_Part):
    """Trials, and rules of their own in place of those in the settings."""

    rules: tuple[AnyRule, ...] = ()
    tests: Annotated[tuple[Trial, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What came, and what was wrong with it: no faults means that the trial passed."""

    name: str
    events: tuple[AlertEvent, ...]
    hours: tuple[float, ...]  # since the beginning, one for each event
    faults: tuple[str, ...]


def run_trial(trial: Trial, rules: tuple[AnyRule, ...], *, promises: Promises | None = None) -> TrialResult:
    """Folds the trial's rows under the rules. Raises ValueError for more than two million rows, and for a rule under
    `only` that is none of the rules."""
    if strange := set(trial.only) - {rule.name for rule in rules}:
        known = ", ".join(repr(rule.name) for rule in rules)
        raise ValueError(f"tests: {trial.name!r}: only: {min(strange)!r} is not one of the rules {known}")
    rows = sum(stretch.hours * stretch.per_hour for stretch in trial.stretches)
    if rows > _MOST_ROWS:
        raise ValueError(f"tests: {trial.name!r} has {rows:.0f} rows; the limit is {_MOST_ROWS}: take fewer per hour")
    events = tuple(
        event
        for event in Engine(rules, promises=promises).fold(_rows(trial))
        if event.kind in ("firing", "escalated", "resolved") and (not trial.only or event.series.rule in trial.only)
    )
    hours = tuple((event.at - _START) / timedelta(hours=1) for event in events)
    return TrialResult(name=trial.name, events=events, hours=hours, faults=tuple(_faults(trial, events, hours)))


def _faults(trial: Trial, events: tuple[AlertEvent, ...], hours: tuple[float, ...]) -> Iterator[str]:
    came = list(zip(events, hours, strict=True))
    for wanted in trial.expect:
        what = f"{wanted.kind} of {wanted.rule}"
        # The next of its kind; those passed over were not expected. A missing one takes nothing of what follows along.
        place = next((k for k, (event, _) in enumerate(came) if _is_meant(event, wanted)), None)
        if place is None:
            yield f"{what} did not come"
            continue
        yield from (_unexpected(event, hour) for event, hour in came[:place])
        event, hour = came[place]
        del came[: place + 1]
        if wanted.severity is not None and event.severity != wanted.severity:
            yield f"{what} is a {event.severity}, expected a {wanted.severity}"
        elif hour < wanted.after_h or (wanted.before_h is not None and hour >= wanted.before_h):
            until = "" if wanted.before_h is None else f" and before hour {wanted.before_h:g}"
            yield f"{what} came at hour {hour:.1f}, expected after hour {wanted.after_h:g}{until}"
    yield from (_unexpected(event, hour) for event, hour in came)


def _is_meant(event: AlertEvent, wanted: Expected) -> bool:
    return (event.kind, event.series.rule) == (wanted.kind, wanted.rule)


def _unexpected(event: AlertEvent, hour: float) -> str:
    return f"{event.kind} of {event.series.rule} came at hour {hour:.1f}, and was not expected"


def _rows(trial: Trial) -> Iterator[Score]:
    rng = random.Random(trial.seed)  # noqa: S311 - a trial must give the same each time; no secret hangs on it
    judge_id = JudgeId(f"{trial.judge}@000000000000")
    begin, number = 0.0, 0
    for stretch in trial.stretches:
        for k in range(int(stretch.hours * stretch.per_hour)):
            at = _START + timedelta(hours=begin + k / stretch.per_hour)
            passed, invalid = rng.random() < stretch.rate, rng.random() < stretch.invalid
            settled = Outcome.PASSED if passed else Outcome.FAILED
            yield Score(
                environment=trial.environment,
                app=trial.app,
                version="",
                category="",
                trace_id=f"trial-{number}",
                event_time=at,
                judge_name=trial.judge,
                judge_id=judge_id,
                outcome=Outcome.INVALID if invalid else settled,
                score=None if invalid else float(passed),
                reason=InvalidReason.JUDGE_ERROR.value if invalid else "",
                judged_at=at,
            )
            number += 1
        begin += stretch.hours
