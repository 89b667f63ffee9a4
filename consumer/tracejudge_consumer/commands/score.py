"""`tracejudge score`: a file of traces judged here and now, without queue and store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from tracejudge.counted import counted
from tracejudge.datasets import BrokenLine
from tracejudge.errors import CheckFailed, NothingToDecide, SettingsError
from tracejudge.judging import Estimate, JudgeSpec, PanelResult, RunCaps, check_caps, estimate
from tracejudge.judging.query_engine import load_engine
from tracejudge.scores import Decision
from tracejudge_consumer.choosing.judges import check_pairwise, require_prices, resolve_judges
from tracejudge_consumer.files.form import FileForm
from tracejudge_consumer.files.output import RowsFile, default_output, open_rows, write_manifest
from tracejudge_consumer.files.paired_lines import paired
from tracejudge_consumer.files.scores import EngineChoice, FileCounts, plan_file, score_file
from tracejudge_consumer.process.judging_run import run_judging
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_UNAVAILABLE, EXIT_UNDECIDED
from tracejudge_consumer.terminal.options import Number, OutFile, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, harmless, money, progress_bar, to_json
from tracejudge_consumer.views.scored_file import engine_facts, engine_line, tell, tell_plan
from tracejudge_consumer.wiring import build_file_form


@click.command(
    name="score",
    epilog="""\b
Examples:
  tracejudge score answers.jsonl                       the lexical heuristic: free, no key
  tracejudge score answers.jsonl --judge faithfulness --max-usd 1
  tracejudge score answers.jsonl.gz --judge my-judge.toml --max-calls 40 --output verdicts.parquet
  tracejudge score questions.jsonl --engine my_app.rag:build_engine --engine-concurrency 8
  tracejudge score new.jsonl --judge duel --against old.jsonl --max-usd 1   pairwise: whose answers are better?

One JSON object per line: {"query": "...", "response": "...", "source_nodes": ["passage", ...]}. It first prints the
estimated cost; a judge that calls a model needs a cap, here (--max-usd, --max-calls) or in the settings. With --engine
each query is first answered by your own LlamaIndex query engine, and that answer is judged.
OUTPUT.manifest.json, next to the results, records what was judged, by which judge, with which outcome.
Exit status: 0 every readable trace was reached (unreadable lines are reported, and are `broken` in the manifest and
in --json), 2 stopped at a cap, 75 judge unavailable or no reply readable.""",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@config_option
@json_option
@click.option(
    "--judge", "judges", multiple=True, default=("lexical",), show_default=True, help="Judge: NAME or FILE.toml."
)
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False),
    default=None,
    help="Pairwise judges: compare with this file's answers, by case_id.  [default: with each line's reference]",
)
@click.option("--max-calls", type=click.IntRange(0), default=None, help="Maximum number of judge calls in this run.")
@click.option("--max-usd", type=Number(0), default=None, help="Maximum spend in this run, in USD.")
@click.option("--app", default="file", show_default=True, help="App of lines without one.")
@click.option(
    "--output",
    "-o",
    type=OutFile(),
    default=None,
    help="Results file: JSON lines, or Parquet if it ends in .parquet.  [default: FILE.scores.jsonl, with the judge's "
    "name added if that file holds another judge's results]",
)
@click.option("--engine", "engine_path", default=None, help="Query engine, or factory of one, as package.module:name.")
@click.option(
    "--engine-concurrency",
    type=click.IntRange(1, 1000),
    default=4,
    show_default=True,
    help="Concurrent queries to the engine.",
)
@click.option(
    "--engine-timeout", type=Number(0.1), default=120.0, show_default=True, help="Timeout of one query, in seconds."
)
@click.option("--dry-run", is_flag=True, help="Print the estimated cost and exit.")
def command(
    file: str,
    config: str,
    as_json: bool,
    judges: tuple[str, ...],
    against: str | None,
    max_calls: int | None,
    max_usd: float | None,
    app: str,
    output: str | None,
    engine_path: str | None,
    engine_concurrency: int,
    engine_timeout: float,
    dry_run: bool,
) -> int:
    """Judge a file of traces: no queue, no store."""
    specs = resolve_judges(config, judges)
    path = Path(file)
    broken: list[BrokenLine] = []
    form = _form(config)
    if against is not None:
        check_pairwise(specs)
        if engine_path is not None:
            raise click.UsageError("--against compares existing answers: omit --engine")
        form = paired(form, Path(against), app=app)
    plan, traces = plan_file(path, app, specs, broken, form=form)
    if engine_path is not None:
        # What the engine will answer is not known yet.
        plan = estimate(specs, traces_per_day=traces)
    require_prices(specs, max_usd)
    if not as_json:
        tell_plan(plan, traces, specs)
    if dry_run:
        if as_json:
            click.echo(to_json({"traces": traces, "plan": plan}))
        return EXIT_DONE
    caps = RunCaps(max_calls=max_calls, max_usd=max_usd)
    _require_caps(specs, plan, caps)
    if traces == 0:
        raise _nothing(path, against, broken)
    target = _target(output, path, specs)
    engine = _engine(engine_path, engine_concurrency, engine_timeout)
    started_at = datetime.now(timezone.utc)
    with _opened(target) as out, _progress(traces, hidden=as_json) as advance:
        done = run_judging(
            score_file(path, out, app=app, form=form, specs=specs, caps=caps, engine=engine, advance=advance)
        )
    results = {name: item.as_dict(traces) for name, item in done.counts.items()}
    facts = {
        "traces": traces,
        "broken": len(broken),
        "started_at": started_at,
        "finished_at": datetime.now(timezone.utc),
        "results": results,
    }
    asked = None if engine is None else engine_facts(engine, done)
    manifest = write_manifest(target, source=path, specs=specs, caps=caps, engine=asked, facts=facts)
    if as_json:
        click.echo(to_json({"file": file, "traces": traces, "broken": len(broken), "output": str(target),
                            "manifest": str(manifest), "engine": asked, "judges": results}))  # fmt: skip
        return _status(done.counts, traces)
    if asked is not None:
        click.echo(engine_line(asked))
    tell(done.counts, traces, broken, caps)
    console().print(f"results: {target}")
    return _status(done.counts, traces)


def _form(config: str) -> FileForm:
    """Judging without settings is a first step; with them, the file may be in the form that they describe."""
    if not Path(config).exists():
        return FileForm()
    return build_file_form(load_settings(config, require_caps=False, connects=False))


def _require_caps(specs: Sequence[JudgeSpec], plan: Sequence[Estimate], caps: RunCaps) -> None:
    if caps.max_calls is None and caps.max_usd is None:
        faults = check_caps(specs, estimates=plan)
        if faults:
            raise SettingsError([f"{fault} (or give --max-calls or --max-usd)" for fault in faults])


def _nothing(path: Path, against: str | None, broken: Sequence[BrokenLine]) -> CheckFailed | NothingToDecide:
    """Why there is no trace to judge: none could be read, or there is none."""
    if broken:
        found = f"{counted(len(broken), 'line')} unreadable, the first: {broken[0].detail}"
        return CheckFailed(f"{path}: contains no trace: {found}; --help shows the line format")
    if against is not None:
        return NothingToDecide(f"{path} and {against} share no question: give it the same app and case_id in both")
    return NothingToDecide(f"{path}: contains no trace; --help shows the line format")


def _target(output: str | None, path: Path, specs: Sequence[JudgeSpec]) -> Path:
    target = Path(output) if output else default_output(path, specs)
    if target.exists() and target.samefile(path):
        raise click.BadParameter("is the input itself; name another file", param_hint="--output")
    return target


def _opened(target: Path) -> RowsFile:
    try:
        return open_rows(target)
    except OSError as error:
        raise click.BadParameter(f"{target}: {error.strerror}", param_hint="--output") from error


@contextmanager
def _progress(traces: int, *, hidden: bool) -> Iterator[Callable[[PanelResult, int], None]]:
    """A bar with what was spent so far, moved by each result; judges that are gone are named at once."""
    columns = (
        TextColumn("judging"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[cost]}"),
    )
    spent = 0.0
    with progress_bar(*columns, hidden=hidden) as progress:
        task = progress.add_task("judging", total=traces, cost="")

        def advance(result: PanelResult, judged: int) -> None:
            nonlocal spent
            spent += sum(call.cost_usd or 0.0 for call in result.calls)
            progress.update(task, advance=judged, cost=money(spent) if spent else "")
            for error in result.gone:
                click.echo(f"error: {harmless(str(error))}", err=True)

        yield advance


def _status(counts: Mapping[str, FileCounts], traces: int) -> int:
    decided = {decision for item in counts.values() for decision, _ in item.decisions}
    # Every trace invalid says nothing about the answers and much about the judge.
    whole = all(item.reached == traces and item.invalid.total() < traces for item in counts.values())
    if not whole or Decision.UNDECIDED in decided:
        return EXIT_UNAVAILABLE
    return EXIT_UNDECIDED if Decision.OVER_BUDGET in decided else EXIT_DONE


def _engine(path: str | None, concurrency: int, timeout_s: float) -> EngineChoice | None:
    if path is None:
        return None
    # As `python -m` does: one's own module beside one's files is found.
    sys.path.insert(0, str(Path.cwd()))
    return EngineChoice(path=path, engine=load_engine(path), concurrency=concurrency, timeout_s=timeout_s)
