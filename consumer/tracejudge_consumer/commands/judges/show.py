"""`tracejudge judges show`: what one judge is made of, down to the texts it sends."""

from __future__ import annotations

from typing import Any

import click

from tracejudge.counted import counted
from tracejudge.errors import NotFound
from tracejudge.judging import JudgeSpec
from tracejudge_consumer.choosing.judges import judge_label, resolve_judges
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import console, harmless, to_json
from tracejudge_consumer.wiring import connect_store


@click.command(
    name="show",
    epilog="""\b
Examples:
  tracejudge judges show faithfulness
  tracejudge judges show my-judge.toml --json
  tracejudge judges show faithfulness@0123456789ab     a past JudgeId, from the store""",
)
@click.argument("judge")
@config_option
@json_option
def show(judge: str, config: str, as_json: bool) -> None:
    """Show a judge: settings, prompts, and everything its JudgeId covers."""
    if "@" in judge and not judge.endswith(".toml"):
        _show_stored(judge, config, as_json=as_json)
        return
    for spec in resolve_judges(config, (judge,)):
        if as_json:
            click.echo(to_json({"judge_id": spec.judge_id(), "identity": spec.identity(), "spec": _set(spec)}))
        else:
            _show(spec)


def _show(spec: JudgeSpec) -> None:
    out = console()
    kind = spec.built_in
    out.print(f"{judge_label(spec)}{' (shadow)' if spec.shadow else ''}  {spec.judge_id()}")
    out.print(f"  kind       {spec.kind}" + (f", code {kind.code}" if kind is not None else f", code {spec.code}"))
    out.print(f"  measures   {spec.criterion}")
    out.print(f"  needs      {', '.join(spec.required) or 'nothing'}")
    if spec.asks_model:
        out.print(f"  model      {spec.model_name or '–'} at {spec.base_url or spec.llm}")
        bounds = f"temperature {spec.temperature}, at most {spec.max_tokens} tokens of reply"
        out.print(f"  asked for  {bounds}, window {spec.context_window_tokens} tokens")
        form = "JSON by schema, where the endpoint takes it" if spec.response_format() is not None else "in words only"
        out.print(f"  reply      {form}")
    if kind is None or kind.default_threshold is not None:
        out.print(f"  passes     from {spec.passing_threshold:g} on")
    if kind is not None and kind.asks_model:
        out.print(f"  parts      {kind.combination}; at most {counted(spec.max_calls_per_trace, 'call')} a trace")
    if spec.repeats != 1:
        out.print(f"  repeats    {spec.repeats}, by majority")
    for name, value in spec.options.items():
        out.print(f"  option     {name} = {harmless(repr(value), limit=200)}")
    for title, text in (("system", spec.system_text()), ("prompt", spec.prompt_text())):
        if text:
            # As it is sent: no line is broken that is not broken there.
            click.echo(f"\n--- {title}\n{harmless(text)}")


def _set(spec: JudgeSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude_defaults=True)


def _show_stored(judge_id: str, config: str, *, as_json: bool) -> None:
    with connect_store(load_settings(config, require_caps=False)) as store:
        found = next((one for one in store.judges.all() if one.judge_id == judge_id), None)
    if found is None:
        raise NotFound(f"{judge_id}: no such JudgeId in the store; `tracejudge judges list --stored` shows them")
    if as_json:
        click.echo(to_json({"judge_id": found.judge_id, "registered_at": found.registered_at, "spec": found.spec}))
        return
    out = console()
    out.print(f"{found.judge_id}{' (heuristic)' if found.heuristic else ''}, as it was when first seen")
    for name, value in found.spec.items():
        if value not in (None, {}, [], ""):
            out.print(f"  {name:<22} {harmless(str(value), limit=2000)}")
