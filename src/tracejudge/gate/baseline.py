"""The run that later ones are held against: a small JSON file that is committed beside the thresholds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracejudge.errors import CheckFailed
from tracejudge.gate.verdicts import RunVerdicts
from tracejudge.scores import Outcome

FORMAT: Final = 1
_LETTERS: Final = {Outcome.PASSED: "p", Outcome.FAILED: "f", Outcome.INVALID: "i", None: "-"}
_OUTCOMES: Final = {letter: outcome for outcome, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Verdicts by judge and case, the JudgeIds behind them, and the dataset they are of."""

    dataset: str
    judge_ids: Mapping[str, str]
    outcomes: Mapping[str, Mapping[str, Outcome | None]]  # judge name -> case -> outcome


def of_run(run: RunVerdicts) -> Baseline:
    """The run as a baseline."""
    outcomes: dict[str, dict[str, Outcome | None]] = {}
    for verdict in run.verdicts:
        outcomes.setdefault(verdict.judge_name, {})[verdict.case] = verdict.outcome
    return Baseline(dataset=run.dataset, judge_ids=run.judge_ids, outcomes=outcomes)


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Writes it so that a change of one verdict is a change of one line."""
    judges = {
        name: {
            "judge_id": baseline.judge_ids[name],
            "verdicts": {case: _LETTERS[outcome] for case, outcome in sorted(cases.items())},
        }
        for name, cases in sorted(baseline.outcomes.items())
    }
    document = {"format": FORMAT, "dataset": baseline.dataset, "judges": judges}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_baseline(path: Path) -> Baseline:
    """Raises CheckFailed when the file is missing, of another format or damaged, with the remedy."""
    remedy = "; write it with `tracejudge gate ... --update-baseline` from a run that is good, and commit it"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckFailed(f"{path}: {error.strerror}{remedy}") from error
    except ValueError as error:
        raise CheckFailed(f"{path}: is not JSON{remedy}") from error
    try:
        if document["format"] != FORMAT:
            raise CheckFailed(f"{path}: format {document['format']!r} is not {FORMAT}{remedy}")
        return Baseline(
            dataset=document["dataset"],
            judge_ids={name: judge["judge_id"] for name, judge in document["judges"].items()},
            outcomes={
                name: {case: _OUTCOMES[letter] for case, letter in judge["verdicts"].items()}
                for name, judge in document["judges"].items()
            },
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckFailed(f"{path}: is no baseline ({type(error).__name__}: {error}){remedy}") from error
