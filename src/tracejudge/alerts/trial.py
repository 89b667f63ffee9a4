"""Rules tried on made-up traffic: what one expects of them, written down and checked."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tracejudge.alerts.engine import Engine
from tracejudge.alerts.event import AlertEvent, Severity
from tracejudge.alerts.rules.budget import promised_per_hour
from tracejudge.alerts.rules.promise import Promises
from tracejudge.alerts.rules.rule import AnyRule
from tracejudge.alerts.rules.slices import GroupField
from tracejudge.scores import InvalidReason, JudgeId, Outcome, Score, TraceFacts

_START: Final = datetime(2026, 1, 5, tzinfo=timezone.utc)
_MOST_ROWS: Final = 2_000_000
_BATCH: Final = 10_000


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Slice(_Part):
    """A share of a stretch's traffic, by chance: what its traces say of themselves, and a pass rate of its own."""

    share: Annotated[float, Field(gt=0, le=1)]
    says: Mapping[GroupField, str]
    rate: Annotated[float, Field(ge=0, le=1)] | None = None


class Stretch(_Part):
    """So many hours of traffic with one pass rate. `invalid` is the share that the judge could not judge; `says` is
    what all of its traces say of themselves."""

    hours: Annotated[float, Field(gt=0, le=24 * 365)]
    rate: Annotated[float, Field(ge=0, le=1)]
    per_hour: Annotated[float, Field(ge=0, le=100_000)] = 60.0
    invalid: Annotated[float, Field(ge=0, le=1)] = 0.0
    says: Mapping[GroupField, str] = {}
    slices: tuple[Slice, ...] = ()

    @model_validator(mode="after")
    def _shares_fit(self) -> Stretch:
        whole = sum(one.share for one in self.slices)
        if whole > 1.0 + 1e-9:
            raise ValueError(f"slices: their shares come to {whole:.3g}; of one traffic they may be 1 together")
        return self


class Expected(_Part):
    """An event of a rule that must come, in order; `after_h` and `before_h` are hours since the beginning, `group` is
    the slice it must be of."""

    rule: str
    kind: Literal["firing", "escalated", "resolved"]
    severity: Severity | None = None
    group: Mapping[GroupField, str] | None = None
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
    advice: str = ""  # what to consider before a rule is blamed for the faults


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
        for event in _told(trial, Engine(rules, promises=promises))
        if event.kind in ("firing", "escalated", "resolved") and (not trial.only or event.series.rule in trial.only)
    )
    hours = tuple((event.at - _START) / timedelta(hours=1) for event in events)
    return TrialResult(
        name=trial.name,
        events=events,
        hours=hours,
        faults=tuple(_faults(trial, events, hours)),
        advice=_of_silence(trial, events, rules, promises or Promises()),
    )


def _told(trial: Trial, engine: Engine) -> Iterator[AlertEvent]:
    rows = _rows(trial)
    while batch := list(islice(rows, _BATCH)):
        facts = {score.key: TraceFacts(None, says) for score, says in batch} if engine.trace_fields else None
        yield from engine.fold((score for score, _ in batch), facts=facts)


def _faults(trial: Trial, events: tuple[AlertEvent, ...], hours: tuple[float, ...]) -> Iterator[str]:
    came = list(zip(events, hours, strict=True))
    for wanted in trial.expect:
        what = f"{wanted.kind} of {wanted.rule}{_of_group(wanted.group)}"
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


def _of_silence(trial: Trial, events: tuple[AlertEvent, ...], rules: tuple[AnyRule, ...], promises: Promises) -> str:
    """Where silence was expected and a rule that promises alarmed: that it may have been within its promise."""
    promised = {
        name: per_hour
        for name, per_hour in promised_per_hour(rules, promises, environment=trial.environment, app=trial.app).items()
        if not trial.only or name in trial.only
    }
    if trial.expect or not any(event.kind == "firing" and event.series.rule in promised for event in events):
        return ""
    hours = sum(stretch.hours for stretch in trial.stretches)
    number = f"{hours * sum(promised.values()):.2g}"
    return (
        f"in {hours:g} hours of made-up traffic without a fall the rules promise at most {number} false "
        f"alarm{'' if number == '1' else 's'} on average, not none: this is seed {trial.seed}, try others (`seed` of "
        "the test) before the rule is to blame"
    )


def _is_meant(event: AlertEvent, wanted: Expected) -> bool:
    right_slice = wanted.group is None or dict(wanted.group) == dict(event.series.group)
    return (event.kind, event.series.rule) == (wanted.kind, wanted.rule) and right_slice


def _of_group(group: Mapping[str, str] | None) -> str:
    return f" ({', '.join(f'{name}={value}' for name, value in group.items())})" if group else ""


def _unexpected(event: AlertEvent, hour: float) -> str:
    group = _of_group(dict(event.series.group))
    return f"{event.kind} of {event.series.rule}{group} came at hour {hour:.1f}, and was not expected"


def _rows(trial: Trial) -> Iterator[tuple[Score, Mapping[str, str]]]:
    """Each row, and what its trace says of itself."""
    rng = random.Random(trial.seed)  # noqa: S311 - a trial must give the same each time; no secret hangs on it
    judge_id = JudgeId(f"{trial.judge}@000000000000")
    begin, number = 0.0, 0
    for stretch in trial.stretches:
        for k in range(int(stretch.hours * stretch.per_hour)):
            at = _START + timedelta(hours=begin + k / stretch.per_hour)
            verdict, invalid = rng.random(), rng.random() < stretch.invalid
            rate, says = _slice_of(stretch, rng)
            passed = verdict < rate
            settled = Outcome.PASSED if passed else Outcome.FAILED
            score = Score(
                environment=trial.environment,
                app=trial.app,
                version=says.get("version", ""),
                category=says.get("category", ""),
                stratum=says.get("stratum", ""),
                trace_id=f"trial-{number}",
                event_time=at,
                judge_name=trial.judge,
                judge_id=judge_id,
                outcome=Outcome.INVALID if invalid else settled,
                score=None if invalid else float(passed),
                reason=InvalidReason.JUDGE_ERROR.value if invalid else "",
                judged_at=at,
            )
            yield score, says
            number += 1
        begin += stretch.hours


def _slice_of(stretch: Stretch, rng: random.Random) -> tuple[float, Mapping[str, str]]:
    """The pass rate of the next row, and what its trace says. Without slices nothing is drawn."""
    place = rng.random() if stretch.slices else 1.0
    for one in stretch.slices:
        if place < one.share:
            return stretch.rate if one.rate is None else one.rate, {**stretch.says, **one.says}
        place -= one.share
    return stretch.rate, stretch.says
