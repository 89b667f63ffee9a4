"""`tracejudge judges check`: settings, endpoint, and a handful of cases with a right answer, per judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from tracejudge.clock import SystemClock
from tracejudge.counted import counted
from tracejudge.datasets import BrokenLine, Line, read_lines
from tracejudge.errors import SettingsError
from tracejudge.judging import JudgeSpec, NothingSpent, Panel, RunCaps
from tracejudge.judging.calls.endpoint_check import EndpointCheck, check_endpoint
from tracejudge.judging.known_cases import KnownCase, known_cases
from tracejudge.judging.trial import Trial, Tried, try_judge
from tracejudge_consumer.choosing.judges import judge_label, resolve_judges
from tracejudge_consumer.process.judging_run import run_judging
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import console, harmless, money, one_line, table, to_json

_MOST_CASES: Final = 50


@click.command(
    name="check",
    epilog="""\b
Examples:
  tracejudge judges check                       every judge of the settings
  tracejudge judges check my-judge.toml --no-calls
  tracejudge judges check polite --cases mine.jsonl

Checks the settings (a prompt without a passage is an error, exit 64), the endpoint, and a few cases with known answers,
at one call each. --cases adds your own, for rules that only you know: traces in the usual format with
"labels": {"CRITERION": true}. Exit status 1 if anything is wrong.""",
)
@click.argument("judges", nargs=-1)
@config_option
@json_option
@click.option("--no-calls", is_flag=True, help="Check settings and endpoint only; no paid calls.")
@click.option(
    "--cases",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    default=None,
    help="JSONL file of your own labelled cases.",
)
def check(judges: tuple[str, ...], config: str, as_json: bool, no_calls: bool, file: str | None) -> int:
    """Test judges: settings, endpoint, known cases."""
    settled = resolve_judges(config, judges) if judges else None
    specs = settled or load_settings(config, require_caps=False, connects=False).judges
    checked = run_judging(_check_all(specs, no_calls=no_calls, file=file))
    if as_json:
        click.echo(to_json(checked))
    else:
        for spec, facts in zip(specs, checked, strict=True):
            _tell(spec, facts)
    return EXIT_DONE if all(facts["ok"] for facts in checked) else EXIT_FAILED


async def _check_all(specs: tuple[JudgeSpec, ...], *, no_calls: bool, file: str | None) -> list[dict[str, Any]]:
    return [await _check(spec, no_calls=no_calls, file=file) for spec in specs]


async def _check(spec: JudgeSpec, *, no_calls: bool, file: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "judge": spec.name,
        "judge_id": spec.judge_id(),
        "ok": True,
        "endpoint": None,
        "trial": None,
    }
    cases = known_cases(spec) if file is None else cases_of(Path(file), spec)
    # What these cases may cost at most, whatever the settings allow.
    caps = RunCaps(max_calls=len(cases) * max(1, spec.usual_calls) * spec.max_attempts)
    try:
        panel = Panel([spec], clock=SystemClock(), spend=NothingSpent(), caps=caps)
    except SettingsError as error:
        return {**facts, "ok": False, "faults": error.faults}
    try:
        if spec.asks_model:
            endpoint = await check_endpoint(spec)
            facts |= {"endpoint": endpoint, "ok": endpoint.status != "FAIL"}
        if not no_calls and facts["ok"] and cases:
            trial = await try_judge(spec, cases, panel)
            facts |= {"trial": trial, "ok": trial.wrong == 0}
    finally:
        await panel.close()
    return facts


def cases_of(path: Path, spec: JudgeSpec) -> tuple[KnownCase, ...]:
    """The traces of the file that carry a label of the judge's criterion. Raises SettingsError where none does."""
    cases = []
    for line in read_lines(path, app="cases"):
        if isinstance(line, BrokenLine):
            raise SettingsError([f"{path}: line {line.number} cannot be read: {line.detail}"])
        if isinstance(line, Line):
            labels = [label for label in line.labels if label.criterion == spec.criterion]
            cases += [KnownCase(f"line {line.number}", label.value >= 0.5, line.trace) for label in labels]
    if not cases:
        raise SettingsError(
            [f'{path}: no line has a label of judge {spec.name!r}: "labels": {{"{spec.criterion}": true}}']
        )
    if len(cases) > _MOST_CASES:
        raise SettingsError(
            [f"{path}: {counted(len(cases), 'case')}; {_MOST_CASES} at most here: `tracejudge score` takes any number"]
        )
    return tuple(cases)


def _tell(spec: JudgeSpec, facts: dict[str, Any]) -> None:
    out = console()
    out.print(f"{judge_label(spec)}  {spec.judge_id()}")
    for fault in facts.get("faults", ()):
        out.print(f"  FAIL  {harmless(fault)}")
    endpoint: EndpointCheck | None = facts["endpoint"]
    if endpoint is not None:
        out.print(f"  {endpoint.status:<5} {harmless(endpoint.detail)}")
        if endpoint.fix:
            out.print(f"        fix: {harmless(endpoint.fix)}")
    trial: Trial | None = facts["trial"]
    if trial is None:
        if facts["ok"]:
            out.print(
                "  note  no case tested"
                + ("" if spec.built_in is None or known_cases(spec) else ": only you know its rules; see --cases")
            )
        return
    rows = [
        ["ok" if one.right else "FAIL", one.case, one.expected, one.said, one_line(one.detail, limit=60)]
        for one in trial.tried
    ]
    columns = [("", "left"), ("case", "left"), ("expected", "left"), ("verdict", "left"), ("because", "left")]
    out.print(table(f"{len(rows) - trial.wrong} of {counted(len(rows), 'known case')} right", columns, rows))
    known = [call.cost_usd for call in trial.calls]
    cost = None if None in known else sum(value for value in known if value is not None)
    reported = _reported(trial.tried)
    out.print(
        f"  {counted(len(trial.calls), 'call')}, {money(cost)}" + (f"; model reported: {reported}" if reported else "")
    )


def _reported(tried: tuple[Tried, ...]) -> str:
    names = {one.model_reported + (f" ({one.fingerprint})" if one.fingerprint else "") for one in tried} - {""}
    return ", ".join(map(harmless, sorted(names)))
