"""Adopts the judge of a replay as the live one: stores the adoption for rates, and an action for the alert loop.

The adoption says from which event time on a judge name's rates are read from which JudgeId. The alert loop folds the
action among the score rows in order of time, so that any loop, also one that folds everything again, seeds the same
baselines at the same point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tracejudge.alerts import Action, HourSums, Overlap, Rule, SeriesKey
from tracejudge.alerts.rules.slices import is_other
from tracejudge.judging import JudgeSpec
from tracejudge.replay import selection_of
from tracejudge.scores import JudgeId
from tracejudge.store import Adoption, RateQuery, Store, UserAction
from tracejudge_consumer.registered import registered

_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def adopt(
    store: Store, spec: JudgeSpec, *, run_id: str, live_from: datetime, now: datetime, by: str, note: str
) -> None:
    """Makes the judge live from the event time `live_from` on. Repeating it with the same values changes nothing."""
    judge_id = spec.judge_id()
    if judge_id not in {one.judge_id for one in store.judges.all()}:
        store.judges.register([registered(spec, now)])
    store.judges.adopt(Adoption(judge_name=spec.name, judge_id=judge_id, live_from=live_from, adopted_by=by, note=note))
    store.user_actions.insert(
        [
            UserAction(
                action_id=f"adopt-{judge_id}-{run_id}",
                kind="adopt",
                target={"judge_name": spec.name, "judge_id": judge_id, "run_id": run_id},
                start=live_from,
                by=by,
                note=note,
                at=now,
            )
        ]
    )


class Seed(NamedTuple):
    """A replay's sums for one series, by hour, and whether its judge is a heuristic."""

    hours: list[HourSums]
    heuristic: bool


def seeds(store: Store, rules: Sequence[Rule], action: Action) -> Mapping[SeriesKey, Seed]:
    """The hourly sums of the replay behind an adoption, for each series that a rule with a baseline watches.

    Rules grouped by stratum are not seeded, because a replay does not sample and knows no strata; nor are rules about
    how judging went, which in a replay says nothing about live traffic; nor are rules that do not slice by what the
    replay's traces were chosen by.
    """
    judge_name, judge_id, run_id = (action.matchers.get(name, "") for name in ("judge_name", "judge_id", "run_id"))
    found: dict[SeriesKey, Seed] = {}
    run = store.runs.get(run_id)
    selection = selection_of(run) if run is not None else None
    narrowed_by = frozenset(selection.narrowed_by if selection is not None else ())
    for rule in rules:
        if not narrowed_by.issubset(rule.group_by):
            continue
        if rule.judge != judge_name or "stratum" in rule.group_by or rule.measure != "quality":
            continue
        query = RateQuery(
            start=_EPOCH,
            end=action.at + timedelta(hours=1),
            step_s=3600,
            environment=rule.environment,
            app=rule.app,
            judge=judge_id,
            run_id=run_id,
            group_by=("app", *rule.group_by),
        )
        for row in store.scores.buckets(query, one_per_content=True):  # as alerts fold rows
            key = SeriesKey(
                rule=rule.name,
                environment=rule.environment,
                app=row.group["app"],
                judge_name=judge_name,
                judge_id=judge_id,
                group=tuple((field, row.group[field]) for field in rule.group_by),
            )
            sums = row.bucket
            hour = int(row.start.timestamp()) // 3600
            seed = found.setdefault(key, Seed([], row.heuristic))
            seed.hours.append(HourSums(hour, sums.sum_w, sums.sum_wx, sums.sum_w2, sums.sum_w2x))
    return found


def overlap_of(store: Store, key: SeriesKey, before: JudgeId, at: datetime) -> Overlap | None:
    """The traces judged up to `at` both by the JudgeId of a new series and, live, by the JudgeId `before` it.

    Runs over traces that were chosen by anything the series does not slice by are left out: judges differ on bad
    answers as they do not on all.

    None for the series of the values beyond a rule's limit, whose traces cannot be told from others.
    """
    if is_other(key):
        return None
    sums = store.pair_sums(
        old=before,
        new=JudgeId(key.judge_id),
        environment=key.environment,
        app=key.app,
        group=dict(key.group),
        before=at,
        unfair=[
            run.run_id
            for run in store.runs.all()
            if (selection := selection_of(run)) is not None and not {*selection.narrowed_by} <= {*dict(key.group)}
        ],
    )
    return Overlap.of_sums(**sums._asdict())
