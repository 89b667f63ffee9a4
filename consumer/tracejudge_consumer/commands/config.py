"""`tracejudge config`: what is set, and whether it can be used."""

from __future__ import annotations

import click

from tracejudge.alerts.event import Severity
from tracejudge.alerts.rules.rule import Rule, effective_severity
from tracejudge.judging import estimate
from tracejudge_consumer.commands.alert_rules import in_severity, watched
from tracejudge_consumer.settings import Settings, load_settings, shown, without_password
from tracejudge_consumer.terminal.options import config_option, group_config_option, json_option
from tracejudge_consumer.terminal.rendering import console, money, table, to_json


@click.group(
    name="config",
    epilog="""\b
Examples:
  tracejudge config check
  tracejudge config -c other.toml check""",
)
@group_config_option
def command() -> None:
    """Validate the settings file and show the effective settings."""


@command.command(
    name="check",
    epilog="""\b
Examples:
  tracejudge config check
  TRACEJUDGE_CONSUMER__GROUP=blue tracejudge config check --json""",
)
@config_option
@json_option
def check(config: str, as_json: bool) -> None:
    """Validate the settings: report all errors (exit 64), or show the effective settings."""
    settings = load_settings(config)
    if as_json:
        ids = {spec.name: spec.judge_id() for spec in settings.judges}
        click.echo(to_json({**shown(settings), "judge_ids": ids}))
        return
    _show(config, settings)


def _show(config: str, settings: Settings) -> None:
    out = console()
    out.print(f"{config}: ok")
    out.print(f"queue  {without_password(settings.queue)}  (group {settings.consumer.group})")
    out.print(f"store  {without_password(settings.store)}")
    if mapping := settings.intake.mapping:
        given = ", ".join(name for name in type(mapping).model_fields if name in mapping.model_fields_set)
        out.print(f"mapping  {given} (try it: tracejudge ingest --dry-run FILE)")
    rows = []
    for spec, cost in zip(settings.judges, estimate(settings.judges, traces_per_day=1000), strict=True):
        rows.append(
            [
                spec.name + (" (heuristic)" if spec.heuristic else ""),
                spec.judge_id(),
                spec.model_name or "–",
                str(spec.caps) or "–",
                money(cost.usd),
            ]
        )
    columns = [("judge", "left"), ("JudgeId", "left"), ("model", "left"), ("cap", "left"), ("1000 traces", "right")]
    out.print(table("Judges", columns, rows))
    heuristics = {spec.name for spec in settings.judges if spec.heuristic}
    for rule in settings.rules:
        severity = effective_severity(rule, heuristic=rule.judge in heuristics)
        promised = settings.alerts.promises.of(rule, environment=rule.environment, app=rule.app)
        whose = "own promise" if rule.false_alarms is not None else "shared by all rules"
        promise = f"false alarms {promised} ({whose})" if rule.budget is not None else "no promise about false alarms"
        out.print(
            f"rule   {rule.name}: {watched(rule)} of {rule.environment} {rule.demand}, {promise}, "
            f"opens a {in_severity(rule, severity)}{_why_lowered(rule, severity)}"
        )


def _why_lowered(rule: Rule, severity: Severity) -> str:
    if severity == rule.severity:
        return ""
    return f"; its severity = {rule.severity!r} needs heuristic_may_page = true, since {rule.judge} is a heuristic"
