"""A run on a report's page: which judge, which traces, when, and its totals."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from tracejudge.pages.page import Section, table
from tracejudge.store import RunManifest


def run_section(run: RunManifest) -> Section:
    """Who judged what, when, chosen by what, and what came of it."""
    manifest = run.manifest
    totals = manifest.get("totals") or {}
    rows = [
        ["run", run.run_id],
        ["kind", run.kind],
        ["begun", _minute(manifest.get("begun_at") or run.started_at)],
    ]
    rows.append(["finished", "not yet" if run.finished_at is None else _minute(run.finished_at)])
    rows += [["judge", str(judge.get("judge_id"))] for judge in manifest.get("judges", ())]
    rows += [["only", said] for said in _chosen(manifest.get("selection") or {})]
    rows.append(["selection", str(manifest.get("selection_hash", ""))])
    rows.append(["release", str(manifest.get("release", ""))])
    rows += [[name, f"{count:,}"] for name, count in totals.items() if name != "usd"]
    if "usd" in totals:
        rows.append(["cost", "price unknown" if totals["usd"] is None else f"${totals['usd']:,.2f}"])
    return Section(heading="The run", parts=(table([("", False), ("", False)], rows),))


def _chosen(selection: Mapping[str, Any]) -> list[str]:
    """By what a replay chose its traces: a rate of these is none of all traffic."""
    where = selection.get("where") or {}
    told = {"start": "served from", "end": "served before", "also": "", "draw": ""}
    said = [
        f"{told.get(name, name)} {_minute(value) if name in ('start', 'end') else value}"
        for name, value in where.items()
        if value and told.get(name) != ""
    ]
    said += [f"{field} {value or '(none)'}" for field, value in where.get("also") or ()]
    said += [f"file {one['path']}" for one in selection.get("files") or ()]
    if sample := selection.get("sample"):
        said.append(f"a random sample of {sample:,}, seed {selection.get('seed', 0)}")
    return said


def _minute(instant: datetime | str) -> str:
    at = datetime.fromisoformat(instant) if isinstance(instant, str) else instant
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
