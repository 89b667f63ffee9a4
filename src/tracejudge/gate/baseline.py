"""The run that later ones are held against, or several at constant code: a small JSON file beside the thresholds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tracejudge.errors import CheckFailed, SettingsError
from tracejudge.gate.verdicts import CaseKey, RunVerdicts
from tracejudge.scores import Outcome

FORMAT: Final = 2
_LETTERS: Final = {Outcome.PASSED: "p", Outcome.FAILED: "f", Outcome.INVALID: "i", None: "-"}
_OUTCOMES: Final = {letter: outcome for outcome, letter in _LETTERS.items()}

Outcomes = Mapping[str, Mapping[CaseKey, tuple[Outcome | None, ...]]]
"""Judge name to case to what each run made of it, in the order of the runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """The outcomes of `runs` runs on one dataset, and the JudgeIds behind them."""

    dataset: str
    judge_ids: Mapping[str, str]
    outcomes: Outcomes
    runs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline(Verdicts):
    """The dataset's verdicts, and those of the anchors that ran along, if any did."""

    anchors: Verdicts | None = field(default=None)


def of_run(run: RunVerdicts) -> Baseline:
    """A baseline made of one run."""
    return of_runs([run])


def of_runs(runs: Sequence[RunVerdicts], anchors: Sequence[RunVerdicts] = ()) -> Baseline:
    """Runs at constant code as one baseline. Raises CheckFailed where they are of several datasets or JudgeIds."""
    told = _verdicts(runs)
    return Baseline(
        dataset=told.dataset,
        judge_ids=told.judge_ids,
        outcomes=told.outcomes,
        runs=told.runs,
        anchors=_verdicts(anchors) if anchors else None,
    )


def _verdicts(runs: Sequence[RunVerdicts]) -> Verdicts:
    first = runs[0]
    found: dict[str, dict[CaseKey, list[Outcome | None]]] = defaultdict(dict)
    for number, run in enumerate(runs):
        if run.dataset != first.dataset or run.judge_ids != first.judge_ids:
            raise CheckFailed(
                "a baseline of several runs is of one dataset and the same JudgeIds throughout: judge it again without "
                f"changing anything (the first run is {_told(first)}, run {number + 1} is {_told(run)})"
            )
        for verdict in run.verdicts:
            found[verdict.judge_name].setdefault(verdict.key, [None] * len(runs))[number] = verdict.outcome
    outcomes = {name: {key: tuple(all_) for key, all_ in cases.items()} for name, cases in found.items()}
    return Verdicts(dataset=first.dataset, judge_ids=first.judge_ids, outcomes=outcomes, runs=len(runs))


def _told(run: RunVerdicts) -> str:
    return f"{run.dataset[:12]} by {', '.join(sorted(run.judge_ids.values()))}"


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Writes it so that a change of one verdict is a change of one line; a letter for each run."""
    document = {"format": FORMAT, **_document(baseline)}
    if baseline.anchors is not None:
        document["anchors"] = _document(baseline.anchors)
    # Half a character, which no file takes, is written as its escape.
    path.write_bytes((json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))


def _document(told: Verdicts) -> dict[str, Any]:
    judges: dict[str, Any] = {}
    for name, cases in sorted(told.outcomes.items()):
        by_app: dict[str, dict[str, str]] = {}
        for key, outcomes in sorted(cases.items()):
            by_app.setdefault(key.app, {})[key.case] = "".join(_LETTERS[one] for one in outcomes)
        judges[name] = {"judge_id": told.judge_ids[name], "verdicts": by_app}
    return {"dataset": told.dataset, "runs": told.runs, "judges": judges}


def read_baseline(path: Path) -> Baseline:
    """Raises SettingsError when the file is missing, of another format or damaged, with the remedy."""
    remedy = "; write it with `tracejudge gate ... --update-baseline` from a run that is good, and commit it"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError([f"{path}: {error.strerror}{remedy}"]) from error
    except (ValueError, RecursionError) as error:
        raise SettingsError([f"{path}: is not JSON{remedy}"]) from error
    try:
        if document["format"] != FORMAT:
            raise SettingsError(
                [f"{path}: format {document['format']!r} is not {FORMAT}, which keeps the cases of each app{remedy}"]
            )
        told = _read(document)
        anchors = document.get("anchors")
        return Baseline(
            dataset=told.dataset,
            judge_ids=told.judge_ids,
            outcomes=told.outcomes,
            runs=told.runs,
            anchors=_read(anchors) if anchors is not None else None,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise SettingsError([f"{path}: is not a baseline ({type(error).__name__}: {error}){remedy}"]) from error


def _read(document: Mapping[str, Any]) -> Verdicts:
    return Verdicts(
        dataset=document["dataset"],
        judge_ids={name: judge["judge_id"] for name, judge in document["judges"].items()},
        outcomes={
            name: {
                CaseKey(app, case): tuple(_OUTCOMES[letter] for letter in letters)
                for app, cases in judge["verdicts"].items()
                for case, letters in cases.items()
            }
            for name, judge in document["judges"].items()
        },
        runs=document["runs"],
    )
