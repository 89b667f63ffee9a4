"""A new release beside the old one, on live weighted scores, judge by judge."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from tracejudge.comparing.standardised import Standardised, judge_within
from tracejudge.comparing.unpaired import ReleaseVerdict, Verdict, judge_release
from tracejudge.errors import NothingToDecide, SettingsError
from tracejudge.reports.mix import NO_SUMS, Judge, MixShift, Sums, fields_of_mix, mix_shift, sums_by
from tracejudge.reports.rates import read_rates, small_enough, unseen_fields
from tracejudge.scores import JudgeId
from tracejudge.store import TRACE_FIELDS, RateQuery, ScoreFilter, Store
from tracejudge.windows import PassRate

WITHIN_FIELDS: Final = ("category", *TRACE_FIELDS)
"""Fields within whose values releases can be compared, besides every "tags.NAME"."""

_Judged: TypeAlias = tuple[str, JudgeId, bool]  # name, id, whether it is a heuristic


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLine:
    """The comparison of both releases by one judge."""

    judge_name: str
    judge_id: JudgeId
    heuristic: bool
    new: PassRate | None
    old: PassRate | None
    result: ReleaseVerdict  # by the totals
    within: Standardised | None = None  # where it was asked for: then it decides
    mix: MixShift | None = None  # where it explains a good part of the totals' difference

    @property
    def decided(self) -> ReleaseVerdict:
        """By which the judge's verdict goes."""
        return self.result if self.within is None else self.within.result


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
    """The lines of a release check and the verdict over them: worse when one judge finds it worse, else not enough
    evidence when one judge is undecided. `exact`: computed from every row instead of from sums by the minute. `within`:
    the field within whose values the two releases were compared."""

    lines: tuple[ReleaseLine, ...]
    exact: bool
    verdict: Verdict
    new: ReleaseWindow
    old: ReleaseWindow
    within: str | None = None
    mix_looked_at: tuple[str, ...] = ()  # fields whose mix was held beside the totals; none where `within` decides


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
    within: str | None = None,
) -> ReleaseCheck:
    """Compares the versions `new` and `old` in the query's window, each judge against itself only.

    The query's own version, step and slices are not looked at. `within` (of WITHIN_FIELDS, or "tags.NAME") compares
    them within the values of that field, and the verdict goes by that; without it, a field whose mix explains a good
    part of the difference is told beside it.

    Raises NothingToDecide when a version has no score at all, when no judge has judged both (verdicts of two judges say
    nothing about two releases), or when no trace of theirs says the field `within`. Raises SettingsError where the
    query names no app or no environment and several have these versions: their mixture says nothing about a release of
    either.

    `exact` reads every row; None does where they are few enough.
    """
    _require_one_place(store, query, {new, old})
    by_version_query = replace(query, version=None, step_s=None, group_by=("version",))
    exact = small_enough(store, by_version_query) if exact is None else exact
    lines = tuple(
        ReleaseLine(
            judge_name=judge_name,
            judge_id=judge_id,
            heuristic=heuristic,
            new=rates[new],
            old=rates[old],
            result=judge_release(
                rates[new],
                rates[old],
                allowed_drop=allowed_drop,
                minimum_effective=minimum_effective,
                confidence=confidence,
            ),
        )
        for (judge_name, judge_id, heuristic), rates in _of_both(store, by_version_query, new=new, old=old, exact=exact)
    )
    judge = partial(judge_within, allowed_drop=allowed_drop, minimum_effective=minimum_effective, confidence=confidence)
    looked_at = fields_of_mix(store, query, exact=exact) if within is None else (within,)
    sums = {field: sums_by(store, query, field, new=new, old=old, exact=exact) for field in looked_at}
    if within is None:
        lines = tuple(_with_mix(line, sums, allowed_drop, judge) for line in lines)
    else:
        if not any(value for one in sums[within].values() for side in one for value in side):
            raise NothingToDecide(f"no judged trace of {new!r} or {old!r} in this window has a value of {within}")
        lines = tuple(replace(line, within=judge(*sums[within].get(line.judge_id, NO_SUMS))) for line in lines)
    verdicts = {line.decided.verdict for line in lines}
    return ReleaseCheck(
        lines=lines,
        exact=exact,
        verdict=next(one for one in _WORST_FIRST if one in verdicts),
        new=_window(store, query, new),
        old=_window(store, query, old),
        within=within,
        mix_looked_at=looked_at if within is None else (),
    )


def _require_one_place(store: Store, query: RateQuery, versions: Collection[str]) -> None:
    for field, several in (("environment", "environments"), ("app", "apps")):
        if getattr(query, field) is None and len(names := served_in(store, query, versions, field)) > 1:
            either = " or ".join(map(repr, sorted(versions)))
            raise SettingsError([f"several {several} served {either}: name one with --{field}: {', '.join(names)}"])


def _of_both(
    store: Store, query: RateQuery, *, new: str, old: str, exact: bool
) -> list[tuple[_Judged, dict[str, PassRate | None]]]:
    """The judges that have judged both versions, in order, with the rate of each. Raises NothingToDecide for none."""
    rates: dict[_Judged, dict[str, PassRate | None]] = {}
    for line in read_rates(store, query, exact=exact):
        if (version := line.group["version"]) in (new, old):
            rates.setdefault((line.judge_name, line.judge_id, line.heuristic), {})[version] = line.rate
    for version in (new, old):
        if not any(version in by_version for by_version in rates.values()):
            place = "slice" if query.also else "time range"
            unseen = "".join(f"; {said}" for said in unseen_fields(store, query))
            raise NothingToDecide(
                f"version {version!r} has no scores in this {place}: see `tracejudge rates --by version`, or use "
                f"a longer --since{unseen}"
            )
    both = [(judged, by_version) for judged, by_version in sorted(rates.items()) if {new, old} <= by_version.keys()]
    if not both:
        ids = ", ".join(sorted(judge_id for _, judge_id, _ in rates))
        raise NothingToDecide(
            f"no judge has judged both {new!r} and {old!r} (seen: {ids}): judge the traces of both again by one "
            "judge with `tracejudge replay --run NAME`, and see `tracejudge rates --run NAME --by version`"
        )
    return both


def _with_mix(
    line: ReleaseLine, sums: Mapping[str, Mapping[JudgeId, Sums]], allowed_drop: float, judge: Judge
) -> ReleaseLine:
    if line.result.difference is None:
        return line
    own = {field: by_judge.get(line.judge_id, NO_SUMS) for field, by_judge in sums.items()}
    return replace(line, mix=mix_shift(own, line.result.difference, allowed_drop=allowed_drop, judge=judge))


def served_in(store: Store, query: RateQuery, versions: Collection[str], field: str) -> list[str]:
    """The environments, or the apps, that have scores of these versions in the query's window and slice."""
    rows = store.scores.buckets(replace(query, version=None, step_s=None, group_by=("version", field)))
    return sorted({row.group[field] for row in rows if row.group["version"] in versions})


def _window(store: Store, query: RateQuery, version: str) -> ReleaseWindow:
    where = ScoreFilter(
        start=query.start,
        end=query.end,
        environment=query.environment,
        app=query.app,
        version=version,
        category=query.category,
        judge=query.judge,
        also=tuple(query.also.items()),
    )
    start, end = store.scores.span(where) or (None, None)
    return ReleaseWindow(version=version, start=start, end=end, judged=store.scores.judged_traces(where))
