"""History under another judge: traces judged again in a run of their own."""

from tracejudge.replay.manifest import (
    OpenRun,
    check_run_name,
    judge_ids_of,
    open_run,
    selection_of,
    spec_of,
)
from tracejudge.replay.pairs import PairSource
from tracejudge.replay.plan import Expected, JudgePlan, makespan_s, plan_judge
from tracejudge.replay.report import ReplayReport
from tracejudge.replay.run import replay
from tracejudge.replay.selection import Selection, SourceFile
from tracejudge.replay.sources import FileSource, Source, StoreSource, file_hash

__all__ = [
    "Expected",
    "FileSource",
    "JudgePlan",
    "OpenRun",
    "PairSource",
    "ReplayReport",
    "Selection",
    "Source",
    "SourceFile",
    "StoreSource",
    "check_run_name",
    "file_hash",
    "judge_ids_of",
    "makespan_s",
    "open_run",
    "plan_judge",
    "replay",
    "selection_of",
    "spec_of",
]
