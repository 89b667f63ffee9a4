"""What the lexical judge is worth on an app it has not seen: the seven human-labelled sets, each left out of its fit.

    TRACEJUDGE_DATA=FOLDER python -m tests.bench.lexical

AUC ranks supported above unsupported answers; BAcc is the mean of the two classes' accuracies at the threshold 0.5. The
length of the answer alone stands beside it: on some sets it is hard to beat.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from tests.bench.fit_lexical import SETS, fit, read_set
from tests.bench.frame import Figure, Run, at_least, at_most, main


def labelled_sets(run: Run) -> Iterator[Figure]:
    """Means over the sets with their goals, then each set."""
    folder = Path(os.environ.get("TRACEJUDGE_DATA") or Path(__file__).parents[3] / "shared" / "data")
    sets = {name: read_set(folder / f"{name}.jsonl.gz") for name in SETS}
    aucs, accuracies, lengths, lines = [], [], [], []
    for name, part in sets.items():
        coefficients, intercept = fit([other for key, other in sets.items() if key != name])
        logit = part.features @ coefficients + intercept
        aucs.append(float(roc_auc_score(part.supported, logit)))
        accuracies.append(float(balanced_accuracy_score(part.supported, logit >= 0.0)))
        lengths.append(float(roc_auc_score(part.supported, part.length)))
        told = (
            f"BAcc {accuracies[-1]:.3f}, length alone {lengths[-1]:.3f}, {len(logit)} rows, {part.skipped} not judged"
        )
        lines.append(Figure(name=f"  {name}: AUC", value=aucs[-1], note=told))
    yield at_least("mean AUC over the sets", [statistics.mean(aucs)], 0.76)
    yield at_least("mean balanced accuracy", [statistics.mean(accuracies)], 0.67)
    yield Figure(name="mean AUC of the length alone", value=statistics.mean(lengths))
    yield at_most("time per trace", [part.ms_per_trace for part in sets.values()], 1.0, unit="ms")
    yield from lines


CASES = {"labelled_sets": labelled_sets}

if __name__ == "__main__":
    sys.exit(main("lexical", CASES))
