"""`tracejudge contract`: the wire contract for producers in other languages."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from tracejudge.counted import counted
from tracejudge.errors import NothingToDecide
from tracejudge_consumer.contract import Fault
from tracejudge_consumer.contract.check import FileFindings, LineFindings, check_file
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED
from tracejudge_consumer.terminal.options import json_option
from tracejudge_consumer.terminal.rendering import ident, one_line, to_json
from tracejudge_sdk.codec import DEFAULT_MAX_RECORD_BYTES
from tracejudge_sdk.schema import published


@click.group(
    name="contract",
    epilog="""\b
Examples:
  tracejudge contract check answers.jsonl
  tracejudge contract schema > record.schema.json
  tracejudge contract keep > keep-vectors.json""",
)
def command() -> None:
    """Wire contract, for producers in any language."""


@command.command(
    name="check",
    epilog="""\b
Examples:
  tracejudge contract check answers.jsonl             list problems line by line; exit 1 if there are any
  tracejudge contract check answers.jsonl.gz --json   one object per line, totals last

One record per line, as a producer would send it (a file for `ingest` may omit more). The consumer refuses a line with a
fault; a note marks a line it accepts, but probably not as intended.""",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@json_option
@click.option(
    "--max-lines", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of lines shown."
)
@click.option(
    "--max-record-bytes", type=click.IntRange(1), default=DEFAULT_MAX_RECORD_BYTES, show_default=True,
    help="Record size limit of the queue.",
)  # fmt: skip
def check(file: str, as_json: bool, max_lines: int, max_record_bytes: int) -> int:
    """Check a file of records and list problems line by line."""
    findings = FileFindings()
    shown = 0
    now = datetime.now(timezone.utc)
    for line in check_file(Path(file), now=now, max_record_bytes=max_record_bytes, findings=findings):
        if not line.faults and not line.notes:
            continue
        if as_json:
            click.echo(to_json(line))
        elif shown < max_lines:
            _show(line)
        shown += 1
    if as_json:
        click.echo(to_json({"file": file, **_sums(findings)}))
    else:
        _show_sums(file, findings, hidden=max(0, shown - max_lines))
    if not findings.lines:
        raise NothingToDecide(f"{file}: has no lines, so nothing was checked")
    return EXIT_FAILED if findings.refused else EXIT_DONE


def _show(line: LineFindings) -> None:
    who = f" ({ident(line.trace_id)})" if line.trace_id else ""
    for label, colour, found in (("refused", "red", line.faults), ("note", "yellow", line.notes)):
        for fault in found:
            words = _words(fault, "allowed: " if label == "refused" else "")
            click.echo(f"line {line.line}{who}: {click.style(label, fg=colour)}: {words}")


def _words(fault: Fault, allowed: str) -> str:
    place = f"{ident(fault.field)}: " if fault.field else ""
    seen = f"{one_line(fault.value, limit=200)}; " if fault.value else ""
    return f"{place}{seen}{allowed}{one_line(fault.limit, limit=200)}; {one_line(fault.remedy, limit=200)}"


def _show_sums(file: str, findings: FileFindings, *, hidden: int) -> None:
    if hidden:
        click.echo(f"... and {counted(hidden, 'more line')}; --max-lines shows them")
    taken = findings.lines - findings.refused
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(findings.kinds.items())) or "none"
    click.echo(f"{ident(file)}: {counted(findings.lines, 'line')}, {taken} taken ({kinds}), {findings.refused} refused")
    for label, counts in (("refused", findings.reasons), ("note", findings.notes)):
        for reason, count in counts.most_common(20):
            click.echo(f"  {count} {label}: {one_line(reason)}")


def _sums(findings: FileFindings) -> dict[str, Any]:
    return {
        "lines": findings.lines,
        "refused": findings.refused,
        "kinds": dict(findings.kinds),
        "reasons": dict(findings.reasons),
        "notes": dict(findings.notes),
    }


@command.command(name="schema", epilog="\b\nExamples:\n  tracejudge contract schema > record.schema.json")
def schema() -> None:
    """Print the JSON Schema of a record."""
    click.echo(json.dumps(published("record"), indent=2, ensure_ascii=False))


@command.command(name="keep", epilog="\b\nExamples:\n  tracejudge contract keep > keep-vectors.json")
def keep() -> None:
    """Describe the sampling hash, with test vectors that every implementation must reproduce."""
    click.echo(json.dumps(published("keep"), indent=2, ensure_ascii=False))
