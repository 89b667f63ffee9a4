"""A new release beside the old one, on live weighted scores, judge by judge."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tracejudge.comparing.unpaired import ReleaseVerdict, Verdict, judge_release
from tracejudge.errors import NothingToDecide, SettingsError
from tracejudge.reports.rates import read_rates, small_enough
from tracejudge.scores import JudgeId
from tracejudge.store import RateQuery, ScoreFilter, Store
from tracejudge.windows import PassRate


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLine:
    """What one judge says of both releases."""

    judge_name: str
    judge_id: JudgeId
    heuristic: bool
    new: PassRate | None
    old: PassRate | None
    result: ReleaseVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWindow:
    """What was looked at of one release: `start` and `end` are the event times of its first and last judged trace in
    the window that was asked about, both inclusive."""

    version: str
    start: datetime | None
    end: datetime | None
    judged: int  # traces with a verdict, by whatever judge


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseCheck:
    """All lines, and the verdict over them: worse by one judge is worse; undecided by one is not enough. `exact`: from
    every row, not from sums by the minute."""

    lines: tuple[ReleaseLine, ...]
    exact: bool
    verdict: Verdict
    new: ReleaseWindow
    old: ReleaseWindow


_WORST_FIRST: Final = (Verdict.WORSE, Verdict.NOT_ENOUGH, Verdict.NO_WORSE)


def check_release(
    store: Store,
    query: RateQuery,
    *,
    new: str,
    old: str,
    allowed_drop: float,
    minimum_effective: float = 20.0,
    confidence: float = 0.95,
    exact: bool | None = None,
) -> ReleaseCheck:
    """Compares the versions `new` and `old` in the query's window, each judge against itself only.

    The query's own version, step and slices are not looked at. Raises NothingToDecide when a version has no score at
    all, or when no judge has judged both: verdicts of two judges say nothing about two releases. Raises SettingsError
    where the query names no app and several have these versions: their mixture says nothing about a release of either.

    `exact` reads every row; None does where they are few enough.
    """
    if query.app is None:
        _check_apps(store, query, {new, old})
    rates: dict[tuple[str, JudgeId, bool], dict[str, PassRate | None]] = {}
    by_version_query = replace(query, version=None, step_s=None, group_by=("version",))
    exact = small_enough(store, by_version_query) if exact is None else exact
    for line in read_rates(store, by_version_query, exact=exact):
        if (version := line.group["version"]) in (new, old):
            rates.setdefault((line.judge_name, line.judge_id, line.heuristic), {})[version] = line.rate
    for version in (new, old):
        if not any(version in by_version for by_version in rates.values()):
            raise NothingToDecide(
                f"version {version!r} has no scores in this window: look at `tracejudge rates --by version`, or go "
                "further back with --since"
            )
    both = {key: by_version for key, by_version in rates.items() if {new, old} <= by_version.keys()}
    if not both:
        ids = ", ".join(sorted(judge_id for _, judge_id, _ in rates))
        raise NothingToDecide(
            f"no judge has judged both {new!r} and {old!r} (seen: {ids}): judge the old traces again with `tracejudge "
            "replay`, then compare the runs"
        )
    lines = tuple(
        ReleaseLine(
            judge_name=judge_name,
            judge_id=judge_id,
            heuristic=heuristic,
            new=by_version[new],
            old=by_version[old],
            result=judge_release(
                by_version[new],
                by_version[old],
                allowed_drop=allowed_drop,
                minimum_effective=minimum_effective,
                confidence=confidence,
            ),
        )
        for (judge_name, judge_id, heuristic), by_version in sorted(both.items())
    )
    verdicts = {line.result.verdict for line in lines}
    return ReleaseCheck(
        lines=lines,
        exact=exact,
        verdict=next(one for one in _WORST_FIRST if one in verdicts),
        new=_window(store, query, new),
        old=_window(store, query, old),
    )


def _check_apps(store: Store, query: RateQuery, versions: Collection[str]) -> None:
    of_apps = replace(query, version=None, step_s=None, group_by=("version", "app"))
    rows = store.scores.buckets(of_apps)
    if len(apps := {row.group["app"] for row in rows if row.group["version"] in versions}) > 1:
        either = " or ".join(map(repr, sorted(versions)))
        raise SettingsError([f"several apps served {either}: name one with --app: {', '.join(sorted(apps))}"])


def _window(store: Store, query: RateQuery, version: str) -> ReleaseWindow:
    where = ScoreFilter(
        start=query.start,
        end=query.end,
        environment=query.environment,
        app=query.app,
        version=version,
        category=query.category,
        judge=query.judge,
    )
    start, end = store.scores.span(where) or (None, None)
    return ReleaseWindow(version=version, start=start, end=end, judged=store.scores.judged_traces(where))
