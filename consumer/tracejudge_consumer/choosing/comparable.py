"""What may be compared with what. Where a comparison would be void it is refused, with the way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import click
from pydantic import ValidationError

from tracejudge.comparing.labelled import settled_labels
from tracejudge.errors import CheckFailed, NotFound, NothingToDecide
from tracejudge.judging import JudgeSpec
from tracejudge.replay import selection_of, spec_of
from tracejudge.scores import Score, TraceKey
from tracejudge.store import CaseVerdicts, Pair, Store, TraceFilter
from tracejudge_consumer.choosing.named_run import require_run


class RunJudge(NamedTuple):
    """One side: a run, and a judge (a name or a JudgeId) of it."""

    run_id: str
    judge: str


class Measured(NamedTuple):
    """The criterion of labels that each side is held against; None where it is not known."""

    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenCases:
    """Pairs of answers to one question. `only_*`: questions on which the other version has no verdict."""

    judge: str
    pairs: tuple[Pair, ...]
    only_a: int
    only_b: int


def side_of(store: Store, text: str) -> RunJudge:
    """RUN:JUDGE, or RUN alone where the run has one judge. Raises NotFound; NothingToDecide where it has none yet."""
    run_id, _, judge = text.partition(":")
    names = store.scores.judge_names(run_id)
    if judge and names and "@" not in judge and judge not in names:
        raise NotFound(f"run {run_id!r} has no scores by a judge {judge!r}; by: {', '.join(names)}")
    if judge and names:
        return RunJudge(run_id, judge)
    if not names:
        try:
            require_run(store, run_id)
        except NotFound as error:
            raise NotFound(
                f"{error}; to compare two versions of an app use --by version, or --cases for the same questions"
            ) from None
        raise NothingToDecide(f"run {run_id!r} has no scores: `tracejudge ledger --run {run_id}` says why")
    if len(names) > 1:
        raise NotFound(f"run {run_id!r} has scores of {len(names)} judges; name one: {run_id}:{names[0]}")
    return RunJudge(run_id, names[0])


def check_sides(store: Store, a: RunJudge, b: RunJudge, criterion: str | None) -> Measured:
    """What each side measures. Raises UsageError for a side beside itself, CheckFailed for judges of different things
    (unless a criterion is named), and for runs over different files, which share no trace."""
    if a == b:
        raise click.UsageError(f"A and B are both {a.run_id}:{a.judge}: name two runs, or two judges")
    mine, theirs = (criterion_of(store, *side) for side in (a, b))
    if criterion is not None:
        return Measured(criterion, criterion)
    if mine and theirs and mine != theirs:
        raise CheckFailed(
            f"{a.judge!r} measures {mine} and {b.judge!r} measures {theirs}: their verdicts are about different "
            "things, and who passes more means nothing. Compare each with a judge of its own kind, or say with "
            "--criterion what both are to be held against"
        )
    files = [_files(store, side.run_id) for side in (a, b)]
    if files[0] is not None and files[1] is not None and files[0] != files[1]:
        raise CheckFailed(
            f"runs {a.run_id!r} and {b.run_id!r} judged different files (by content): replay one of them again over "
            "the other's files with `tracejudge replay --from`"
        )
    return Measured(mine, theirs)


def choose_cases(store: Store, a: str, b: str, *, judge: str, run_id: str, where: TraceFilter) -> ChosenCases:
    """The answers of versions `a` and `b` to the same questions, each with the verdict of one JudgeId.

    Raises NothingToDecide where there is nothing to pair, CheckFailed where two JudgeIds, or a version's answers of
    several environments or apps, would be mixed.
    """
    if a == b:
        raise click.UsageError(f"A and B are both version {a!r}: name two versions")
    of_a, of_b = (store.cases.verdicts(replace(where, version=one), judge=judge, run_id=run_id) for one in (a, b))
    for version, found in ((a, of_a), (b, of_b)):
        if not found.cases:
            raise NothingToDecide(
                f"version {version!r} has no trace with a case_id here: a canary on live traffic is compared with "
                f"`tracejudge release check {b} --against {a}`"
            )
        if not found.scores:
            raise NothingToDecide(
                f"judge {judge!r} has no verdict on the cases of version {version!r} in run {run_id!r}: judge them "
                f"with `tracejudge replay --where version={version}`"
            )
        if len(found.places) > 1:
            told = ", ".join(f"{app} in {environment}" for environment, app in sorted(found.places))
            raise CheckFailed(
                f"version {version!r} answered these questions in several places ({told}), and the latest answer of "
                "any would stand for it: name one with --environment or --app"
            )
    shared = sorted(of_a.scores.keys() & of_b.scores.keys())
    if not shared:
        raise NothingToDecide(
            f"{a!r} and {b!r} have no judged question in common: ask both the same ones, with one case_id"
        )
    pairs = tuple(Pair(key=of_a.scores[case].key, a=of_a.scores[case], b=of_b.scores[case]) for case in shared)
    _one_judge_id(pairs, of_a, of_b, versions=(a, b))
    return ChosenCases(
        judge=judge, pairs=pairs, only_a=len(of_a.scores) - len(shared), only_b=len(of_b.scores) - len(shared)
    )


def preferences(store: Store, a: str, b: str, *, judge: str, run_id: str, where: TraceFilter) -> list[Score]:
    """The verdicts of a pairwise judge on B's answers, each held against A's. Raises CheckFailed where the run holds no
    such pairs."""
    run = store.runs.get(run_id)
    selection = selection_of(run) if run is not None else None
    again = f"tracejudge replay --judge {judge} --version {b} --against {a} --run NAME"
    if selection is None or selection.against is None:
        raise CheckFailed(
            f"{judge!r} judges pairs of answers, and run {run_id!r} holds none of two versions: `{again}` makes such a "
            "run; then compare with --run NAME"
        )
    if (selection.against, selection.where.version) != (a, b):
        theirs = f"{selection.against} {selection.where.version}"
        raise CheckFailed(
            f"run {run_id!r} is of other pairs: write `tracejudge compare {theirs} --cases --run {run_id}`, or judge "
            f"these with `{again}`"
        )
    found = store.cases.verdicts(replace(where, version=b), judge=judge, run_id=run_id).scores
    if not found:
        raise NothingToDecide(f"no pair of {a} and {b} was judged here by {judge!r} in run {run_id!r}")
    return list(found.values())


def judges_pairs(store: Store, judge: str, run_id: str, configured: Iterable[JudgeSpec] = ()) -> bool:
    """Whether a judge says which of two answers is better, by the run, by what is registered, or by the settings."""
    spec = _spec(store, run_id, judge) or next((one for one in configured if one.name == judge), None)
    return spec is not None and spec.kind == "pairwise"


def the_judge(store: Store, judge: str | None, run_id: str) -> str:
    """The judge that is meant in a run; the only one there, where none is named. Raises NotFound."""
    require_run(store, run_id)
    names = store.scores.judge_names(run_id) if judge is None else [judge]
    if len(names) != 1:
        raise NotFound(f"run {run_id!r} has scores of {', '.join(names) or 'no judge'}: name one with --judge")
    return names[0]


def _one_judge_id(pairs: tuple[Pair, ...], a: CaseVerdicts, b: CaseVerdicts, *, versions: tuple[str, str]) -> None:
    ids = {pair.a.judge_id for pair in pairs} | {pair.b.judge_id for pair in pairs}
    if len(ids) > 1:
        told = "; ".join(
            f"{version}: {', '.join(sorted(side.judge_ids))}" for version, side in zip(versions, (a, b), strict=True)
        )
        raise CheckFailed(
            f"the two versions were judged by different JudgeIds ({told}): a difference would be the judge's. Judge "
            "both again with one of them (`tracejudge replay ... --run NAME`), then compare with --run NAME"
        )


def criterion_of(store: Store, run_id: str, judge: str) -> str | None:
    """What a judge measures, by the run's manifest or by what is registered; None when nobody knows it."""
    spec = _spec(store, run_id, judge)
    return spec.criterion if spec is not None else None


def _spec(store: Store, run_id: str, judge: str) -> JudgeSpec | None:
    run = store.runs.get(run_id)
    spec = spec_of(run, judge) if run is not None else None
    if spec is None:
        for one in _registered(store):
            if judge in (one.name, one.judge_id()):
                spec = one  # the latest
    return spec


def labels_of(store: Store, criterion: str | None) -> Mapping[TraceKey, bool]:
    """What people said by a criterion."""
    return settled_labels(store.labels.all(criterion=criterion)) if criterion else {}


def _registered(store: Store) -> Iterator[JudgeSpec]:
    for one in store.judges.all():
        try:
            yield JudgeSpec.model_validate(one.spec)
        except ValidationError:  # of a release that knew other judges: nothing is known of what it measures
            continue


def _files(store: Store, run_id: str) -> frozenset[str] | None:
    run = store.runs.get(run_id)
    selection = selection_of(run) if run is not None else None
    return frozenset(one.sha256 for one in selection.files) if selection is not None and selection.files else None
