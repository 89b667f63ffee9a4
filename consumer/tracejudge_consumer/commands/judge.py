"""`tracejudge judge`: one stored answer judged here and now, beside everything that counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import click

from tracejudge.errors import NotFound, NothingToDecide
from tracejudge.judging import JudgeTask, PanelResult, RunCaps
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.scores import MANUAL_RUN
from tracejudge.store import Store, StoredTrace
from tracejudge_consumer.choosing.judges import resolve_judges
from tracejudge_consumer.process.judging_run import run_judging
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_UNAVAILABLE
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import console, to_json
from tracejudge_consumer.views.trace import show_verdicts
from tracejudge_consumer.wiring import build_panel, connect_store

_MAX_CALLS: Final = 50
"""Of one trace: a judge that asks passage by passage, with its repeats."""


@click.command(
    name="judge",
    epilog="""\b
Examples:
  tracejudge judge t-17 --judge faithfulness
  tracejudge judge t-17 --judge lexical --judge new-judge.toml --json

The verdict is stored in run `manual` and does not affect rates, alerts or the ledger. Judging again replaces it. The
calls count towards the judge's budget.""",
)
@click.argument("trace_id")
@config_option
@json_option
@click.option(
    "--judge", "judges", multiple=True, help="Judge: NAME from the settings, or FILE.toml.  [default: the only judge]"
)
@click.option("--environment", default=None, help="Only in this environment.")
@click.option("--app", default=None, help="Only in this app.")
def command(
    trace_id: str, config: str, as_json: bool, judges: tuple[str, ...], environment: str | None, app: str | None
) -> int:
    """Judge one stored answer now."""
    settings = load_settings(config, require_caps=False)
    if not judges:
        if len(settings.judges) != 1:
            there = ", ".join(spec.name for spec in settings.judges) or "none in the settings"
            raise click.UsageError(f"name one or more with --judge: {there}")
        judges = (settings.judges[0].name,)
    specs = resolve_judges(config, judges)
    with connect_store(settings) as store:
        found = store.traces.get(trace_id, environment=environment, app=app)
        if not found:
            raise NotFound(f"no trace {trace_id!r} in the store; `tracejudge find` searches for traces")
        if len(found) > 1:
            places = ", ".join(f"{one.trace.app} / {one.trace.environment}" for one in found)
            raise click.UsageError(f"trace {trace_id!r} is in {places}: name one with --app and --environment")
        if found[0].texts_expired:
            raise NothingToDecide(
                f"the texts of trace {trace_id!r} are past their retention: there is nothing to judge"
            )
        result = run_judging(_judge(settings, store, specs, found[0]))
    if as_json:
        click.echo(to_json({"scores": result.scores, "ledger": result.ledger, "gone": [str(e) for e in result.gone]}))
    else:
        show_verdicts(console(), list(result.scores), list(result.ledger), full=True)
    return EXIT_UNAVAILABLE if result.gone else EXIT_DONE


async def _judge(settings: Settings, store: Store, specs: tuple[JudgeSpec, ...], stored: StoredTrace) -> PanelResult:
    names = frozenset(spec.name for spec in specs)
    task = JudgeTask(
        trace=stored.trace,
        judge_names=names,
        inclusion_probability=dict.fromkeys(names, 1.0),
        event_time=stored.trace.event_time,
    )
    # Asked anew each time, within every budget of the settings.
    panel = build_panel(settings, store, specs, caps=RunCaps(max_calls=_MAX_CALLS * len(specs)), cached=False)
    try:
        result = await panel.evaluate([task], run_id=MANUAL_RUN)
    finally:
        await panel.close()
    before = store.scores.of_trace(stored.trace.trace_id, environment=stored.trace.environment, app=stored.trace.app)
    revisions = {score.judge_id: score.revision for score in before if score.run_id == MANUAL_RUN}
    # The latest look stands: a later revision beats the verdict that was there.
    scores = tuple(
        replace(score, revision=revisions[score.judge_id] + 1) if score.judge_id in revisions else score
        for score in result.scores
    )
    store.calls.insert(result.calls)
    store.scores.insert(scores)
    store.ledger.insert(result.ledger)
    return replace(result, scores=scores)
