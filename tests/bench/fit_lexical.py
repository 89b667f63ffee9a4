"""Fits the lexical judge's coefficients on human labels and shows what to expect of them on an app not seen.

    python tests/bench/fit_lexical.py [DATA_FOLDER]

DATA_FOLDER (default: TRACEJUDGE_DATA) holds the seven human-labelled sets.
Each set weighs the same. Shares may only raise the score and unmatched numbers and names only lower it: unconstrained,
the fit gives the worst sentence a weight of the wrong sign, and a judge that likes an answer better for one more
unsupported sentence cannot explain itself. The rows that ship as the demo's stream are left out of every fit.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.optimize import minimize
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from tracejudge.signals.lexical import match

SETS: Final = (
    "ragtruth_qa",
    "ragtruth_summary",
    "ragtruth_data2txt",
    "mtrag_human",
    "attribution_claims",
    "begin_wow",
    "factcheck_stance",
)
DEMO_APPS: Final = frozenset({"mtrag-ibmcloud", "mtrag-govt", "hagrid"})
RIDGE: Final = 1e-3
FEATURES: Final = ("word_mean", "word_min", "pair_mean", "pair_min", "numbers", "names")

Array = Any  # numpy ships no types that the strict checker would follow here


@dataclass(frozen=True, slots=True)
class LabelledSet:
    features: Array
    supported: Array
    length: Array
    for_fit: Array
    skipped: int
    ms_per_trace: float


def read_set(path: Path) -> LabelledSet:
    rows: list[tuple[tuple[float, ...], bool, float, bool]] = []
    skipped, spent = 0, 0.0
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            passages = [node["text"] for node in row["source_nodes"] if (node["text"] or "").strip()]
            if not row["response"] or not passages:
                skipped += 1
                continue
            start = time.perf_counter()
            found = match(row["response"], passages)
            spent += time.perf_counter() - start
            if found is None:
                skipped += 1
                continue
            label = row["labels"]["faithfulness"]
            rows.append((found.features, bool(label), -float(len(row["response"])), row["app"] not in DEMO_APPS))
    features, supported, length, for_fit = zip(*rows, strict=True)
    return LabelledSet(
        np.array(features), np.array(supported), np.array(length), np.array(for_fit), skipped, spent / len(rows) * 1e3
    )


def fit(sets: list[LabelledSet]) -> tuple[Array, float]:
    """Weights in the features' own units and the intercept: ridge logistic regression with signs held."""
    x = np.vstack([part.features[part.for_fit] for part in sets])
    sign = np.where(np.concatenate([part.supported[part.for_fit] for part in sets]), 1.0, -1.0)
    weight = np.concatenate([np.full(part.for_fit.sum(), 1.0 / part.for_fit.sum()) for part in sets]) / len(sets)
    mean, scale = x.mean(0), x.std(0)
    z = (x - mean) / scale

    def loss(theta: Array) -> tuple[float, Array]:
        margin = sign * (z @ theta[:-1] + theta[-1])
        slope = -sign * weight / (1.0 + np.exp(margin))
        value = float((weight * np.logaddexp(0.0, -margin)).sum() + RIDGE * (theta[:-1] ** 2).sum())
        return value, np.append(z.T @ slope + 2.0 * RIDGE * theta[:-1], slope.sum())

    bounds = [(0.0, None)] * 4 + [(None, 0.0)] * 2 + [(None, None)]
    theta = minimize(loss, np.zeros(7), jac=True, bounds=bounds, method="L-BFGS-B").x
    coefficients = theta[:-1] / scale
    return coefficients, float(theta[-1] - (coefficients * mean).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """Means over the seven sets, each left out of its own fit."""

    auc: float
    balanced_accuracy: float
    length_auc: float
    ms_per_trace: float


def leave_one_out(folder: Path | None = None) -> Mean:
    """What to expect on an app not seen. `folder` None takes that of TRACEJUDGE_DATA."""
    folder = Path(os.environ["TRACEJUDGE_DATA"]) if folder is None else folder
    sets = {name: read_set(folder / f"{name}.jsonl.gz") for name in SETS}
    scores = []
    for name, part in sets.items():
        coefficients, intercept = fit([other for key, other in sets.items() if key != name])
        logit = part.features @ coefficients + intercept
        auc = roc_auc_score(part.supported, logit)
        accuracy = balanced_accuracy_score(part.supported, logit >= 0.0)
        scores.append((auc, accuracy, roc_auc_score(part.supported, part.length), part.ms_per_trace))
    mean = np.array(scores).mean(0)
    return Mean(
        auc=float(mean[0]), balanced_accuracy=float(mean[1]), length_auc=float(mean[2]), ms_per_trace=float(mean[3])
    )


def main() -> int:
    default = os.environ.get("TRACEJUDGE_DATA") or Path(__file__).parents[3] / "shared" / "data"
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else default)
    sets = {name: read_set(folder / f"{name}.jsonl.gz") for name in SETS}
    print(
        f"{'set, left out of its fit':26} {'n':>5} {'not appl.':>9} {'AUC':>6} {'BAcc':>6} {'length AUC':>10} {'ms':>6}"
    )
    scores = []
    for name, part in sets.items():
        coefficients, intercept = fit([other for key, other in sets.items() if key != name])
        logit = part.features @ coefficients + intercept
        auc = roc_auc_score(part.supported, logit)
        accuracy = balanced_accuracy_score(part.supported, logit >= 0.0)
        length = roc_auc_score(part.supported, part.length)
        scores.append((auc, accuracy, length, part.ms_per_trace))
        row = f"{name:26} {len(logit):5} {part.skipped:9} {auc:6.3f} {accuracy:6.3f} {length:10.3f}"
        print(f"{row} {part.ms_per_trace:6.3f}")
    auc, accuracy, length, ms = np.array(scores).mean(0)
    print(f"{'mean':26} {'':5} {'':9} {auc:6.3f} {accuracy:6.3f} {length:10.3f} {ms:6.3f}")
    coefficients, intercept = fit(list(sets.values()))
    print("\nfitted on all seven sets without the demo's rows:")
    for feature, value in zip(FEATURES, coefficients, strict=True):
        print(f"    {feature}={value + 0.0:.3f}")
    print(f"    intercept={intercept:.3f}")
    return 0 if auc >= 0.76 and accuracy >= 0.67 else 1


if __name__ == "__main__":
    sys.exit(main())
