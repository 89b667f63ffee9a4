"""`tracejudge judges list`: the configured judges, the kinds there are, or every JudgeId the store has seen."""

from __future__ import annotations

from pathlib import Path

import click

from tracejudge.judging import JudgeSpec
from tracejudge.judging.specs.kinds import BUILT_IN
from tracejudge.judging.specs.stock import STOCK_NEEDS
from tracejudge.store import Adoption, RegisteredJudge
from tracejudge_consumer.choosing.judges import LEXICAL, judge_label
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, instant, table, to_json
from tracejudge_consumer.wiring import connect_store


@click.command(
    name="list",
    epilog="""\b
Examples:
  tracejudge judges list                the judges of the settings
  tracejudge judges list --kinds        the available kinds
  tracejudge judges list --stored       every JudgeId that ever judged, and when it was live""",
)
@config_option
@json_option
@click.option("--kinds", is_flag=True, help="List the built-in kinds.")
@click.option("--stored", is_flag=True, help="List every JudgeId in the store.")
def list_judges(config: str, as_json: bool, kinds: bool, stored: bool) -> None:
    """List judges, or kinds of judges."""
    if kinds and stored:
        raise click.UsageError("--kinds and --stored exclude each other")
    if kinds:
        _show_kinds(as_json=as_json)
    elif stored:
        with connect_store(load_settings(config, require_caps=False)) as store:
            _show_stored(store.judges.all(), store.judges.adoptions(), as_json=as_json)
    else:
        known = Path(config).exists()
        specs = load_settings(config, require_caps=False, connects=False).judges if known else (LEXICAL,)
        _show_specs(specs, as_json=as_json)
        if not known and not as_json:
            click.echo(f"{config}: no such file; showing what is available without one", err=True)


def _show_specs(specs: tuple[JudgeSpec, ...], *, as_json: bool) -> None:
    if as_json:
        click.echo(to_json([_facts(spec) for spec in specs]))
        return
    rows = [
        [
            judge_label(spec) + (" (shadow)" if spec.shadow else ""),
            spec.judge_id().rpartition("@")[2],
            spec.kind,
            spec.criterion,
            spec.model_name or "–",
            str(spec.caps) or ("none" if spec.calls_model else "–"),
        ]
        for spec in specs
    ]
    columns = [
        ("judge", "left"),
        ("id", "left"),
        ("kind", "left"),
        ("measures", "left"),
        ("model", "left"),
        ("cap", "left"),
    ]
    console().print(table("Judges", columns, rows))


def _facts(spec: JudgeSpec) -> dict[str, object]:
    return {
        "name": spec.name,
        "judge_id": spec.judge_id(),
        "kind": spec.kind,
        "measures": spec.criterion,
        "heuristic": spec.heuristic,
        "shadow": spec.shadow,
        "model": spec.model_name or None,
        "needs": spec.required,
        "max_calls_per_h": spec.max_calls_per_h,
        "max_usd_per_day": spec.max_usd_per_day,
    }


def _show_kinds(*, as_json: bool) -> None:
    if as_json:
        facts = {
            name: {
                "measures": kind.measures or None,
                "needs": kind.needs,
                "calls_model": kind.calls_model,
                "heuristic": kind.heuristic,
                "options": sorted(kind.options.model_fields) if kind.options is not None else [],
                "default_threshold": kind.default_threshold,
            }
            for name, kind in BUILT_IN.items()
        }
        click.echo(to_json({"built_in": facts, "llama_index": sorted(STOCK_NEEDS)}))
        return
    rows = [
        [
            name + (" (heuristic)" if kind.heuristic else ""),
            "embeddings" if kind.embeds else "a model" if kind.calls_model else "nothing",
            ", ".join(kind.needs),
            ", ".join(kind.options.model_fields) if kind.options is not None else "–",
        ]
        for name, kind in BUILT_IN.items()
    ]
    out = console()
    out.print(table("Kinds", [("kind", "left"), ("asks", "left"), ("needs", "left"), ("options", "left")], rows))
    out.print(f"LlamaIndex's own, by name: {', '.join(STOCK_NEEDS)}")
    out.print('and your own: "package.module:Class", or the name of an entry point of the group "tracejudge.judges"')


def _show_stored(judges: list[RegisteredJudge], adoptions: list[Adoption], *, as_json: bool) -> None:
    live_from = {(one.judge_name, one.judge_id): one.live_from for one in adoptions}
    last = {one.judge_name: one.judge_id for one in sorted(adoptions, key=lambda one: one.live_from)}
    if as_json:
        click.echo(
            to_json(
                [
                    {
                        "judge_id": judge.judge_id,
                        "registered_at": judge.registered_at,
                        "live_from": live_from.get((judge.judge_name, judge.judge_id)),
                        "live": last.get(judge.judge_name) == judge.judge_id,
                        "heuristic": judge.heuristic,
                        "kind": judge.spec.get("kind"),
                    }
                    for judge in judges
                ]
            )
        )
        return
    rows = [
        [
            ident(judge.judge_id) + (" (heuristic)" if judge.heuristic else ""),
            ident(str(judge.spec.get("kind", "–"))),
            ident(str(judge.spec.get("model") or "–")),
            instant(judge.registered_at),
            "live"
            if last.get(judge.judge_name) == judge.judge_id
            else "before"
            if (judge.judge_name, judge.judge_id) in live_from
            else "–",
        ]
        for judge in judges
    ]
    columns = [("JudgeId", "left"), ("kind", "left"), ("model", "left"), ("first seen (UTC)", "left"), ("", "left")]
    console().print(table("JudgeIds in the store", columns, rows))
