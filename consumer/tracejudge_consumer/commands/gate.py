"""`tracejudge gate`: does a run over a fixed dataset reach the thresholds of the repository?"""

from __future__ import annotations

from pathlib import Path

import click
from pydantic import ValidationError

from tracejudge.errors import NotFound, SettingsError
from tracejudge.gate import (
    Decided,
    GateResult,
    RunVerdicts,
    Thresholds,
    decide,
    junit_xml,
    markdown,
    of_run,
    of_scores,
    read_baseline,
    read_rows,
    seen,
    write_baseline,
)
from tracejudge.store import ScoreFilter
from tracejudge_consumer.cli import EXIT_DONE, EXIT_FAILED, EXIT_UNDECIDED
from tracejudge_consumer.options import config_option, json_option
from tracejudge_consumer.rendering import console, ident, table, to_json
from tracejudge_consumer.settings import faults_of, load_settings, read_toml
from tracejudge_consumer.wiring import connect_store

_STATUS = {Decided.PASSED: EXIT_DONE, Decided.FAILED: EXIT_FAILED, Decided.UNDECIDED: EXIT_UNDECIDED}


@click.command(
    name="gate",
    epilog="""\b
Examples:
  tracejudge score dataset.jsonl --engine shop.rag:engine --judge faithfulness --max-usd 1
  tracejudge gate dataset.jsonl.scores.jsonl --baseline baseline.json --markdown comment.md
  tracejudge gate --run nightly --thresholds quality.toml --junit gate.xml
  tracejudge gate dataset.jsonl.scores.jsonl --baseline baseline.json --update-baseline

\b
thresholds.toml:
  min_cases = 20                    # fewer settled cases decide nothing
  [[thresholds]]
  judge = "faithfulness"
  minimum = 0.80
  max_drop = 0.03                   # below the baseline, on the same cases
  [[thresholds]]
  judge = "faithfulness"
  where = { category = "returns" }
  minimum = 0.75

A check fails when its whole interval lies beyond the limit; strict = true asks for evidence that it is good.
Exit status: 0 passed, 1 failed, 2 not enough evidence.""",
)
@click.argument("rows", type=click.Path(exists=True, dir_okay=False), required=False)
@click.option("--run", "run_id", default=None, help="A stored run instead of a file of rows.")
@click.option(
    "--thresholds",
    "thresholds_file",
    type=click.Path(dir_okay=False),
    default="thresholds.toml",
    show_default=True,
    help="What is asked for.",
)
@click.option("--baseline", "baseline_file", type=click.Path(dir_okay=False), default=None, help="The committed one.")
@click.option("--update-baseline", is_flag=True, help="Make this run the baseline, and stop.")
@click.option("--junit", type=click.Path(dir_okay=False), default=None, help="Write JUnit XML here.")
@click.option("--markdown", "markdown_file", type=click.Path(dir_okay=False), default=None, help="Write Markdown here.")
@config_option
@json_option
def command(
    rows: str | None,
    run_id: str | None,
    thresholds_file: str,
    baseline_file: str | None,
    update_baseline: bool,
    junit: str | None,
    markdown_file: str | None,
    config: str,
    as_json: bool,
) -> int:
    """Pass or fail a release on the verdicts of a run."""
    if (rows is None) == (run_id is None):
        raise click.UsageError("name a file of rows that `tracejudge score` wrote, or --run NAME")
    if not update_baseline and not Path(thresholds_file).is_file():
        raise SettingsError(
            [f"{thresholds_file}: no such file: `tracejudge gate --help` shows one, and --thresholds names another"]
        )
    run = read_rows(Path(rows)) if rows is not None else _stored(config, run_id or "")
    if update_baseline:
        if baseline_file is None:
            raise click.UsageError("--update-baseline needs --baseline FILE: where to write it")
        write_baseline(Path(baseline_file), of_run(run))
        click.echo(f"{baseline_file}: {len(run.verdicts)} verdicts by {', '.join(sorted(run.judge_ids.values()))}")
        return EXIT_DONE
    try:
        thresholds = Thresholds.model_validate(read_toml(Path(thresholds_file)))
    except ValidationError as error:
        raise SettingsError([f"{thresholds_file}: {fault}" for fault in faults_of(error)]) from error
    baseline = read_baseline(Path(baseline_file)) if baseline_file is not None else None
    result = decide(thresholds, run, baseline)
    if junit is not None:
        Path(junit).write_text(junit_xml(result), encoding="utf-8")
    if markdown_file is not None:
        Path(markdown_file).write_text(markdown(result), encoding="utf-8")
    if as_json:
        click.echo(to_json({"gate": result}))
    else:
        _show(result)
    return _STATUS[result.decided]


def _stored(config: str, run_id: str) -> RunVerdicts:
    with connect_store(load_settings(config, require_caps=False)) as store:
        run = of_scores(score for page in store.scores.stream(ScoreFilter(run_id=run_id)) for score in page)
        if not run.verdicts:
            known = ", ".join(store.scores.run_ids()) or "none"
            raise NotFound(f"run {run_id!r} has no scores; runs with scores: {known}")
    return run


def _show(result: GateResult) -> None:
    out = console()
    rows = [[check.decided.value, check.name, seen(check), str(check.cases), check.words] for check in result.checks]
    columns = [("", "left"), ("check", "left"), ("seen", "right"), ("cases", "right"), ("", "left")]
    out.print(table("Gate", columns, rows))
    for check in result.checks:
        if check.changed and check.decided is not Decided.PASSED:
            out.print(f"passed before, fail now: {', '.join(map(ident, check.changed[:10]))}")
    out.print(f"\n{result.decided.value}")
