"""`tracejudge gate`: does a run over a fixed dataset reach the thresholds of the repository?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from pydantic import ValidationError

from tracejudge.counted import counted
from tracejudge.errors import NothingToDecide, SettingsError
from tracejudge.gate import (
    Decided,
    GateResult,
    RunVerdicts,
    Thresholds,
    decide,
    junit_xml,
    markdown,
    of_rounds,
    of_runs,
    of_scores,
    read_baseline,
    read_rows,
    seen,
    write_baseline,
)
from tracejudge.scores import JudgeId
from tracejudge.store import ScoreFilter
from tracejudge_consumer.choosing.named_run import require_run
from tracejudge_consumer.settings import faults_of, load_settings, read_toml
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED, EXIT_UNDECIDED
from tracejudge_consumer.terminal.options import OutFile, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, instant, table, to_json
from tracejudge_consumer.wiring import connect_store

_EXAMPLE: Final = "`tracejudge gate --help`"
_SHOWN_CASES: Final = 10
_STATUS = {Decided.PASSED: EXIT_DONE, Decided.FAILED: EXIT_FAILED, Decided.UNDECIDED: EXIT_UNDECIDED}


@click.command(
    name="gate",
    epilog="""\b
Examples:
  tracejudge score dataset.jsonl --engine shop.rag:engine --judge faithfulness --max-usd 1
  tracejudge gate dataset.jsonl.scores.jsonl --baseline baseline.json --markdown comment.md
  tracejudge gate --run nightly --thresholds quality.toml --junit gate.xml
  tracejudge gate --run nightly --baseline baseline.json --anchor-set shop
  tracejudge gate dataset.jsonl.scores.jsonl --baseline baseline.json --update-baseline
  tracejudge gate run1.jsonl run2.jsonl run3.jsonl --baseline baseline.json --update-baseline   three runs, same code

\b
thresholds.toml:
  min_cases = 20                    # fewer settled cases: no decision
  [[thresholds]]
  judge = "faithfulness"
  minimum = 0.80
  max_drop = 0.03                   # below the baseline, on the same cases; or "noise": run-to-run variation
  [[thresholds]]
  judge = "faithfulness"
  where = { category = "returns" }
  minimum = 0.75

A check fails when its whole interval lies beyond the limit; strict = true requires evidence that it is good. With a
baseline of several runs of the same code, drops are judged against their run-to-run variation. With --anchors (rows of
fixed answers, judged alongside) or --anchor-set (latest stored rounds of `tracejudge anchors run`), a judge that moved
since the baseline decides no drop.
Exit status: 0 passed, 1 failed or baseline of another dataset or judge, 2 not enough evidence, 64 no baseline.""",
)
@click.argument("rows", type=click.Path(exists=True, dir_okay=False), nargs=-1)
@click.option("--run", "run_ids", multiple=True, help="Stored run to read instead of files of rows.")
@click.option(
    "--anchors",
    "anchor_files",
    type=click.Path(exists=True, dir_okay=False),
    multiple=True,
    help="Scored rows of fixed anchor answers.",
)
@click.option("--anchor-set", default=None, metavar="NAME", help="Use the latest stored rounds of this anchor set.")
@click.option(
    "--thresholds",
    "thresholds_file",
    type=click.Path(dir_okay=False),
    default="thresholds.toml",
    show_default=True,
    help="Thresholds file.",
)
@click.option("--baseline", "baseline_file", type=click.Path(dir_okay=False), default=None, help="Baseline file.")
@click.option("--update-baseline", is_flag=True, help="Write this run as the new baseline and exit.")
@click.option("--junit", type=OutFile(), default=None, help="Write JUnit XML to this file.")
@click.option("--markdown", "markdown_file", type=OutFile(), default=None, help="Write Markdown to this file.")
@config_option
@json_option
def command(
    rows: tuple[str, ...],
    run_ids: tuple[str, ...],
    anchor_files: tuple[str, ...],
    anchor_set: str | None,
    thresholds_file: str,
    baseline_file: str | None,
    update_baseline: bool,
    junit: str | None,
    markdown_file: str | None,
    config: str,
    as_json: bool,
) -> int:
    """Pass or fail a release, on the verdicts of a run."""
    if bool(rows) == bool(run_ids):
        raise click.UsageError("name a file of rows that `tracejudge score` wrote, or --run NAME")
    if not update_baseline and max(len(rows), len(run_ids), len(anchor_files)) > 1:
        raise click.UsageError("only one run can be compared with the baseline; several need --update-baseline")
    if not update_baseline and not Path(thresholds_file).is_file():
        raise SettingsError(
            [f"{thresholds_file}: no such file: `tracejudge gate --help` shows one; --thresholds names another"]
        )
    if anchor_files and anchor_set is not None:
        raise click.UsageError("--anchors FILE and --anchor-set NAME exclude each other: give one of them")
    runs = [read_rows(Path(one)) for one in rows] or _stored(config, run_ids)
    run = runs[0]
    anchors = [read_rows(Path(one)) for one in anchor_files]
    if anchor_set is not None:
        anchors = [_latest_rounds(config, anchor_set, run)]
    if update_baseline:
        if baseline_file is None:
            raise click.UsageError("--update-baseline needs --baseline FILE to write to")
        OutFile().convert(baseline_file, None, None)
        write_baseline(Path(baseline_file), of_runs(runs, anchors))
        verdicts = sum(len(one.verdicts) for one in runs)
        if as_json:
            of_anchors = sum(len(one.verdicts) for one in anchors)
            facts = {"baseline": baseline_file, "verdicts": verdicts, "runs": len(runs), "anchors": of_anchors}
            click.echo(to_json({**facts, "judge_ids": run.judge_ids}))
            return EXIT_DONE
        told = counted(verdicts, "verdict")
        told += f" of {len(runs)} runs" if len(runs) > 1 else ""
        told += f", {sum(len(one.verdicts) for one in anchors)} of anchors" if anchors else ""
        click.echo(f"{baseline_file}: {told}, by {', '.join(map(ident, sorted(run.judge_ids.values())))}")
        return EXIT_DONE
    try:
        thresholds = Thresholds.model_validate(read_toml(Path(thresholds_file)))
    except ValidationError as error:
        raise SettingsError([f"{thresholds_file}: {fault}" for fault in faults_of(error, example=_EXAMPLE)]) from error
    baseline = read_baseline(Path(baseline_file)) if baseline_file is not None else None
    result = decide(thresholds, run, baseline, anchors=anchors[0] if anchors else None)
    if junit is not None:
        Path(junit).write_text(junit_xml(result), encoding="utf-8")
    if markdown_file is not None:
        Path(markdown_file).write_text(markdown(result), encoding="utf-8")
    if as_json:
        click.echo(to_json({"gate": result}))
    else:
        _show(result)
    return _STATUS[result.decided]


def _stored(config: str, run_ids: Sequence[str]) -> list[RunVerdicts]:
    found = []
    with connect_store(load_settings(config, require_caps=False)) as store:
        for run_id in run_ids:
            run = of_scores(score for page in store.scores.stream(ScoreFilter(run_id=run_id)) for score in page)
            if not run.verdicts:
                # A typing error in a pipeline is no release that failed, nor is a run in which nothing is judged yet.
                require_run(store, run_id)
                raise NothingToDecide(
                    f"run {run_id!r} has no scores: `tracejudge ledger --run {run_id}` shows what became of its traces"
                )
            found.append(run)
    return found


def _latest_rounds(config: str, name: str, run: RunVerdicts) -> RunVerdicts:
    """What each judge of the run said of the anchors of a set, the last time that it was asked about all of them."""
    found = []
    with connect_store(load_settings(config, require_caps=False)) as store:
        set_id = store.anchors.find(name)
        for judge_id in sorted(set(run.judge_ids.values())):
            rounds = store.anchors.rounds.of(set_id, JudgeId(judge_id))
            finished = [one for one in rounds if one.finished_at is not None]
            if not finished:
                raise NothingToDecide(
                    f"judge {judge_id} has no finished round over the anchors {set_id}: run one with `tracejudge "
                    "anchors run`"
                )
            latest = finished[-1]
            click.echo(f"anchors {ident(set_id)}: {ident(judge_id)} at {instant(latest.round_at)} (UTC)", err=True)
            found.append(latest)
    return of_rounds(found)


def _show(result: GateResult) -> None:
    out = console()
    rows = [
        [check.decided.value, ident(check.name), seen(check), str(check.cases), ident(check.words)]
        for check in result.checks
    ]
    columns = [("", "left"), ("check", "left"), ("seen", "right"), ("cases", "right"), ("", "left")]
    out.print(table("Gate", columns, rows))
    for check in result.checks:
        if check.changed and check.decided is not Decided.PASSED:
            more = len(check.changed) - _SHOWN_CASES
            cases = ", ".join(map(ident, check.changed[:_SHOWN_CASES])) + (f" and {more} more" if more > 0 else "")
            out.print(f"passed before, fails now: {cases}")
    out.print(f"\n{result.decided.value}")
