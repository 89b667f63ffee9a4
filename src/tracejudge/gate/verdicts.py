"""The verdicts of one run over a fixed dataset, as the gate looks at them: one for each (case, judge)."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tracejudge.anchors import AnchorRound
from tracejudge.counted import counted
from tracejudge.errors import CheckFailed, NothingToDecide, SettingsError
from tracejudge.scores import Outcome, Score


class CaseKey(NamedTuple):
    """A case of an app: two apps may use one id."""

    app: str
    case: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of one judge on one case. `outcome` None: it was not judged (not applicable, over budget ...)."""

    case: str
    judge_name: str
    judge_id: str
    outcome: Outcome | None
    slices: Mapping[str, str]  # version, category and app of the case
    heuristic: bool = False

    @property
    def key(self) -> CaseKey:
        return CaseKey(self.slices.get("app", ""), self.case)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdicts:
    """The verdicts of one run. `dataset` is a hash of the cases that were judged, equal for two runs over the same
    cases."""

    dataset: str
    verdicts: tuple[Verdict, ...]
    latency_p95_ms: float | None = None  # of the pipeline's own answers, where they were measured
    stored: bool = False  # read from the store, which knows a case by its trace_id alone

    @property
    def judge_ids(self) -> dict[str, str]:
        """The JudgeId behind each judge name."""
        return {verdict.judge_name: verdict.judge_id for verdict in self.verdicts}

    @property
    def apps(self) -> frozenset[str]:
        """The apps whose cases were judged."""
        return frozenset(verdict.key.app for verdict in self.verdicts)


def read_rows(path: Path) -> RunVerdicts:
    """The rows that `tracejudge score` wrote; how long answers took is in the manifest beside them, if there is one.

    Raises SettingsError for a file that is none of these, naming the line, or that has a case twice, CheckFailed for
    one with two JudgeIds of one name, and NothingToDecide for one without a row.
    """
    verdicts = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                verdicts.append(_verdict(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise SettingsError(
                    [
                        f"{path}: line {number} is not a row of `tracejudge score` ({_why(error)}): name the file it "
                        "wrote, not the dataset"
                    ]
                ) from error
    if not verdicts:
        raise NothingToDecide(
            f"{path}: has no rows, so nothing was judged and nothing is decided: check the output of `tracejudge score`"
        )
    _check_judges(str(path), verdicts)
    _check_cases(str(path), verdicts)
    return RunVerdicts(dataset=_dataset(verdicts), verdicts=tuple(verdicts), latency_p95_ms=_latency_p95_ms(path))


def _check_judges(source: str, verdicts: Iterable[Verdict]) -> None:
    """Raises CheckFailed where a name stands for two judges: their verdicts are not one measurement."""
    ids: dict[str, set[str]] = {}
    for verdict in verdicts:
        ids.setdefault(verdict.judge_name, set()).add(verdict.judge_id)
    for name, found in sorted(ids.items()):
        if len(found) > 1:
            raise CheckFailed(
                f"{source}: judge {name!r} stands for several JudgeIds here ({', '.join(sorted(found))}), and a gate "
                "measures with one: judge the dataset again with `tracejudge score`, or with `tracejudge replay` in a "
                "run of its own"
            )


def _check_cases(source: str, verdicts: Iterable[Verdict]) -> None:
    """Raises SettingsError for a case that a judge was asked about twice: a baseline keeps one of its verdicts, so that
    a run would differ from itself."""
    times = Counter((verdict.judge_name, verdict.key) for verdict in verdicts)
    twice = sorted(key for (_, key), count in times.items() if count > 1)
    if twice:
        raise SettingsError(
            [
                f"{source}: {counted(len(twice), 'case has', 'cases have')} several verdicts of one judge, such as "
                f"{twice[0].case!r} of app {twice[0].app!r}, and a gate compares one of each: give every line of the "
                "dataset a case_id of its own"
            ]
        )


def _latency_p95_ms(path: Path) -> float | None:
    manifest = path.with_name(f"{path.name}.manifest.json")
    if not manifest.exists():
        return None
    try:
        engine = json.loads(manifest.read_text(encoding="utf-8"))["engine"]
        return None if engine is None or engine["latency_ms"] is None else float(engine["latency_ms"]["p95"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckFailed(
            f"{manifest}: is not a manifest of `tracejudge score` ({type(error).__name__}: {error})"
        ) from error


def _dataset(verdicts: Iterable[Verdict]) -> str:
    """Named by its cases, not by their answers: two releases answer the same questions differently."""
    cases = sorted({"\x1f".join(verdict.key) for verdict in verdicts})
    return hashlib.sha256("\x1e".join(cases).encode("utf-8", "surrogatepass")).hexdigest()


def of_scores(scores: Iterable[Score]) -> RunVerdicts:
    """The verdicts of a stored run. Raises CheckFailed where two JudgeIds of one name judged in it, and SettingsError
    for a case that it has twice: a trace id of two environments."""
    verdicts = tuple(
        Verdict(
            case=score.trace_id,
            judge_name=score.judge_name,
            judge_id=score.judge_id,
            outcome=score.outcome,
            slices={"app": score.app, "version": score.version, "category": score.category},
            heuristic="heuristic" in score.flags,
        )
        for score in scores
    )
    _check_judges("this run", verdicts)
    _check_cases("this run", verdicts)
    return RunVerdicts(dataset=_dataset(verdicts), verdicts=verdicts, stored=True)


def of_rounds(rounds: Iterable[AnchorRound]) -> RunVerdicts:
    """The verdicts of judges on frozen anchors, from the latest round of each. Anchors that could not be judged are not
    settled.

    Raises CheckFailed where two JudgeIds of one name are among them.
    """
    verdicts = tuple(
        Verdict(
            case=case,
            judge_name=one.judge_name,
            judge_id=one.judge_id,
            outcome=_ANCHORED[said.passed],
            slices={"app": one.set_id},
            heuristic=one.heuristic,
        )
        for one in rounds
        for case, said in one.verdicts.items()
    )
    _check_judges("the anchors", verdicts)
    return RunVerdicts(dataset=_dataset(verdicts), verdicts=verdicts)


_ANCHORED: Final = {True: Outcome.PASSED, False: Outcome.FAILED, None: Outcome.INVALID}


def _verdict(row: Mapping[str, Any]) -> Verdict:
    settled = {outcome.value: outcome for outcome in Outcome}
    return Verdict(
        case=str(row.get("case_id") or row["trace_id"]),
        judge_name=str(row["judge"]),
        judge_id=str(row["judge_id"]),
        outcome=settled.get(str(row["outcome"])),
        slices={name: str(row.get(name) or "") for name in ("app", "version", "category")},
        heuristic=row.get("heuristic") is True,
    )


def _why(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"has no {error.args[0]}"
    return "is not JSON" if isinstance(error, ValueError | RecursionError) else "is not a JSON object"
