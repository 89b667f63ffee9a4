"""What a run is, in the `runs` table: who judges what, by which release, how far it came, what it cost, when."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import version
from typing import Any, Final

from pydantic import ValidationError

from tracejudge.errors import CheckFailed
from tracejudge.judging import JudgeSpec, RunCaps
from tracejudge.replay.progress import Behind
from tracejudge.replay.report import ReplayReport
from tracejudge.replay.selection import Selection, other_times
from tracejudge.scores import RESERVED_RUNS, Outcome
from tracejudge.store import RunManifest, Store

KIND: Final = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A run that may be gone on with. `stored` is what the store holds of it by now."""

    run_id: str
    selection: Selection
    stored: RunManifest
    resumed: bool = False

    @property
    def behind(self) -> Behind:
        """Where to go on; at the beginning after an attempt that was complete, so that what was invalid is tried
        again."""
        cursor = self.stored.manifest.get("cursor")
        return Behind() if cursor is None else Behind(**cursor)

    def drawing(self, selection: Selection) -> OpenRun:
        """The run of a selection of which the sample is drawn by now."""
        chosen = {"selection": selection.as_dict(), "selection_hash": selection.digest}
        stored = replace(self.stored, manifest={**self.stored.manifest, **chosen})
        return replace(self, selection=selection, stored=stored)


def check_run_name(run_id: str) -> None:
    """Raises ValueError for a name that a replay may not use."""
    if run_id in RESERVED_RUNS:
        raise ValueError(f"run {run_id!r} is reserved; give the replay another name")
    if not run_id or len(run_id) > 64 or not all(c.isalnum() or c in "-_." for c in run_id):
        raise ValueError(f"run {run_id!r}: use 1 to 64 letters, digits, '-', '_' and '.'")


def open_run(
    store: Store, run_id: str, *, specs: Collection[JudgeSpec], selection: Selection, caps: RunCaps, now: datetime
) -> OpenRun:
    """The run of this name, begun or gone on with; nothing is stored yet.

    One that is there keeps its selection, times included. Raises CheckFailed where it asked something else, or by
    other judges.
    """
    asked = selection.where
    if selection.where.end is None and not selection.files:
        # What is served from now on is not part of it, so that the run has an end and means the same tomorrow.
        selection = replace(selection, where=replace(selection.where, end=now))
    ours = [str(spec.judge_id()) for spec in specs]
    judges = [{"judge_id": spec.judge_id(), "spec": spec.model_dump(mode="json")} for spec in specs]
    before = store.runs.get(run_id)
    manifest: dict[str, Any] = {
        "release": version("tracejudge"),
        "judges": judges,
        "caps": {"max_calls": caps.max_calls, "max_usd": caps.max_usd},
        "begun_at": now.isoformat(),
        "attempts": [],
        "cursor": None,
    }
    if before is not None and (known := selection_of(before)) is not None:
        theirs = judge_ids_of(before)
        if sorted(theirs) != sorted(ours):
            raise CheckFailed(
                f"run {run_id!r} is judged by {', '.join(theirs)}, not {', '.join(ours)}: "
                "give this one another name with --run"
            )
        if not known.asks_as(selection):
            raise CheckFailed(
                f"run {run_id!r} is of another selection ({known.digest[:12]}): give this run another name with --run"
            )
        begun_at = datetime.fromisoformat(before.manifest["begun_at"])
        if words := other_times(known.where, asked, begun_at=begun_at, now=now):
            raise CheckFailed(f"run {run_id!r} {words}: omit it to continue, or give this run another name with --run")
        selection = replace(known, files=selection.files)  # the same content, wherever it lies by now
        kept = ("begun_at", "attempts", "cursor")
        manifest |= {name: before.manifest[name] for name in kept if name in before.manifest}
    manifest |= {"selection": selection.as_dict(), "selection_hash": selection.digest}
    manifest["attempts"] = [*manifest["attempts"], {"started_at": now.isoformat(), "finished_at": None}]
    stored = RunManifest(run_id=run_id, kind=KIND, started_at=now, manifest=manifest)
    return OpenRun(run_id=run_id, selection=selection, stored=stored, resumed=before is not None)


def selection_of(run: RunManifest) -> Selection | None:
    """What a run is about; None for one that is no replay, or of a release that did not say."""
    value = run.manifest.get("selection")
    return None if run.kind != KIND or value is None else Selection.from_dict(value)


def judge_ids_of(run: RunManifest) -> list[str]:
    """The JudgeIds of a run's judges."""
    return [str(one["judge_id"]) for one in run.manifest.get("judges", ())]


def spec_of(run: RunManifest, judge: str) -> JudgeSpec | None:
    """The judge of a run by its name or JudgeId; None where it has none, or one that this release cannot read."""
    for one in run.manifest.get("judges", ()):
        if judge in (one["judge_id"], str(one["judge_id"]).partition("@")[0]):
            try:
                return JudgeSpec.model_validate(one["spec"])
            except ValidationError:  # of a release that knew other judges
                return None
    return None


def with_cursor(stored: RunManifest, behind: Behind) -> RunManifest:
    """The manifest while the run is under way."""
    return replace(stored, manifest={**stored.manifest, "cursor": behind.as_dict()})


def finished(stored: RunManifest, report: ReplayReport, behind: Behind, *, store: Store, now: datetime) -> RunManifest:
    """The manifest at the end of an attempt, with the totals of all of them; finished only when nothing is left."""
    attempts = [dict(one) for one in stored.manifest["attempts"]]
    attempts[-1] |= {"finished_at": now.isoformat(), "result": report.as_dict()}
    values: Mapping[str, Any] = {
        **stored.manifest,
        "attempts": attempts,
        "cursor": None if report.complete else behind.as_dict(),
        "result": report.as_dict(),
        "totals": _totals(store, stored.run_id),
    }
    return replace(stored, finished_at=now if report.complete else None, manifest=values)


def _totals(store: Store, run_id: str) -> dict[str, Any]:
    spent = store.calls.of_run(run_id)
    outcomes = store.scores.outcomes(run_id)
    return {
        **{outcome.value: outcomes.get(outcome, 0) for outcome in Outcome},
        "calls": spent.calls,
        "usd": None if spent.unpriced else spent.usd,
    }
