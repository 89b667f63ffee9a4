"""A release gate: the verdicts of one run over a fixed dataset, held against thresholds and a baseline."""

from tracejudge.gate.baseline import Baseline, of_run, of_runs, read_baseline, write_baseline
from tracejudge.gate.decide import Check, Decided, GateResult, decide
from tracejudge.gate.report import junit_xml, markdown, seen
from tracejudge.gate.thresholds import Threshold, Thresholds
from tracejudge.gate.verdicts import CaseKey, RunVerdicts, Verdict, of_rounds, of_scores, read_rows

__all__ = [
    "Baseline",
    "CaseKey",
    "Check",
    "Decided",
    "GateResult",
    "RunVerdicts",
    "Threshold",
    "Thresholds",
    "Verdict",
    "decide",
    "junit_xml",
    "markdown",
    "of_rounds",
    "of_run",
    "of_runs",
    "of_scores",
    "read_baseline",
    "read_rows",
    "seen",
    "write_baseline",
]
