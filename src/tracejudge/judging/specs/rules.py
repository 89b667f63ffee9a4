"""What a JudgeSpec may say: each rule raises ValueError with the field, the fault and the remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationError

from tracejudge.judging.prompts import PromptError, check_template
from tracejudge.judging.specs.kinds import BUILT_IN, Kind
from tracejudge.judging.specs.secret_like import holds_key, refuse_secrets
from tracejudge.judging.specs.stock import STOCK_EMBEDDERS, STOCK_NEEDS, STOCK_PATH, STOCK_TEMPLATES

if TYPE_CHECKING:
    from tracejudge.judging.specs.spec import JudgeSpec

IMPORT_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z")
ENTRY_POINTS: Final = "tracejudge.judges"
"""Group of entry points under which a package offers judges: NAME = "package.module:Class"."""


def whole_kind(value: str) -> str:
    """A kind as it is written down: a built-in name, or an import path, also for the short names that stand for one.

    Short are the names of LlamaIndex's own evaluators and of entry points.
    """
    if value in BUILT_IN or IMPORT_PATH.match(value):
        return value
    if value in STOCK_NEEDS:
        return f"{STOCK_PATH}:{value}"
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        if entry.name == value:
            return entry.value
    known = ", ".join(map(repr, BUILT_IN))
    raise ValueError(
        f"{value!r} is neither one of {known} nor an import path 'package.module:Class', one of LlamaIndex's "
        f"evaluators ({', '.join(STOCK_NEEDS)}) or an entry point of the group {ENTRY_POINTS!r}"
    )


def import_path(value: str | None) -> str | None:
    if value is not None and not IMPORT_PATH.match(value):
        raise ValueError(f"{value!r} is not an import path 'package.module:Class'")
    return value


def plain_url(value: str | None) -> str | None:
    """An http(s) URL without a secret in it."""
    if value is None:
        return None
    # No message repeats the URL: a password can stand in one that is no URL, too.
    try:
        parts = urlsplit(value)
        plain = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        plain = False
    if not plain:
        raise ValueError("is not an http(s) URL such as 'https://api.openai.com/v1'")
    if "@" in parts.netloc or holds_key(value):
        raise ValueError("holds a user, password or key; put the key into the variable named by api_key_env")
    if parts.query or parts.fragment:
        raise ValueError(
            "has a query part, and what is called stands behind it: leave it out; a key goes into the "
            "variable named by api_key_env"
        )
    return value.rstrip("/")


def plain_values(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON values, and no secret among them."""
    refuse_secrets(value)
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"must be plain JSON values: {error}") from error
    return value


def check_whole(spec: JudgeSpec) -> None:
    """Raises ValueError for what no single field shows."""
    kind = spec.built_in
    if kind is not None:
        _check_built_in(spec, kind)
    else:
        _check_counted(spec)
        _check_stock_template(spec)
    if spec.scale is not None and not spec.scale[0] < spec.scale[1]:
        raise ValueError("scale: its first number, the worst score, must be below its second, the best")
    if spec.llm is not None and spec.base_url is not None:
        raise ValueError("llm and base_url exclude each other; an LLM class takes its URL in llm_options")
    if spec.llm is None and (spec.base_url is None) != (spec.model is None):
        raise ValueError("base_url and model belong together")
    if spec.extra_body.get("stream"):
        raise ValueError(
            "extra_body.stream: a verdict is read whole, and each call would be paid for and lost; remove it"
        )
    if spec.repeats % 2 == 0:
        raise ValueError(f"repeats: {spec.repeats} has no majority; take an odd number")
    if spec.prompt is not None:
        _check_prompt(spec.prompt, kind, spec.kind)
    if (money := spec.caps.in_money) and not spec.priced:
        raise ValueError(
            f"{money}: money cannot be counted without prices; set usd_per_million_input_tokens and "
            "usd_per_million_output_tokens, or use max_calls_per_h"
        )


def _threshold_hint(spec: JudgeSpec, kind: Kind) -> str:
    if kind.default_threshold is None or not any("threshold" in name for name in spec.options):
        return "; options are for kinds that take some, and for your own class"
    return f"; the least score that passes is a setting of the judge itself: threshold = {kind.default_threshold:g}"


def _check_built_in(spec: JudgeSpec, kind: Kind) -> None:
    if kind.asks_model and spec.llm is None and (spec.base_url is None or spec.model is None):
        raise ValueError(
            f"kind {spec.kind!r} calls a model: give base_url and model (an OpenAI-compatible endpoint), "
            "or llm (import path of a LlamaIndex LLM)"
        )
    if not kind.asks_model:
        if spec.llm or spec.base_url or spec.model:
            raise ValueError(f"kind {spec.kind!r} calls no model: remove llm, base_url and model")
        if spec.repeats != 1 and not kind.embeds:
            raise ValueError(f"repeats: kind {spec.kind!r} says the same every time; remove it")
    if kind.options is None:
        if spec.options:
            named = ", ".join(sorted(spec.options))
            raise ValueError(f"options: kind {spec.kind!r} takes none, got {named}{_threshold_hint(spec, kind)}")
    else:
        try:
            kind.options.model_validate(dict(spec.options))
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
            told = "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'options'}: {fault['msg']}" for fault in faults)
            raise ValueError(f"options of kind {spec.kind!r}: {told}") from None
    if kind.default_threshold is None and spec.threshold is not None:
        raise ValueError(f"threshold: kind {spec.kind!r} answers yes or no; remove it")
    if spec.needs is not None or spec.code != 1 or spec.scale is not None:
        raise ValueError(f"needs, code, scale: fixed for kind {spec.kind!r}; they are for your own class")
    if kind.embeds:
        if money := spec.caps.in_money:
            raise ValueError(f"{money}: what an embedding model spends cannot be seen; use max_calls_per_h")
    elif spec.calls_model != kind.calls_model:
        raise ValueError(f"calls_model: fixed for kind {spec.kind!r}; it is for your own class")


def _check_prompt(prompt: str, kind: Kind | None, name: str) -> None:
    if kind is None or kind.prompt is None:
        raise ValueError(f"prompt: kind {name!r} has no prompt of ours to replace")
    try:
        check_template(prompt, known=kind.variables, required=kind.required_variables, aliases=kind.aliases)
    except PromptError as error:
        raise ValueError(f"prompt: {error}") from error


def _check_stock_template(spec: JudgeSpec) -> None:
    template = spec.options.get("eval_template") if spec.stock else None
    name = spec.kind.partition(":")[2]
    if not isinstance(template, str):
        return
    for variable in STOCK_TEMPLATES.get(name, ()):
        if f"{{{variable}}}" not in template:
            raise ValueError(
                f"options.eval_template: does not name {{{variable}}}, which {name} fills in: its verdicts would not "
                "be about the answer; put it where the model is to read that text"
            )


def _check_counted(spec: JudgeSpec) -> None:
    """Where a class that is not ours would make calls that no cap sees."""
    if spec.asks_model:
        if not spec.calls_model:
            raise ValueError("calls_model = false: llm and base_url name a model to call; remove one or the other")
        return
    if spec.stock and spec.kind.partition(":")[2] not in STOCK_EMBEDDERS:
        raise ValueError(
            f"kind {spec.kind!r} calls a model, and LlamaIndex would fall back to its global Settings.llm, whose "
            "calls nobody counts or caps: give base_url and model, or llm (import path of a LlamaIndex LLM)"
        )
    if money := spec.caps.in_money:
        raise ValueError(
            f"{money}: what kind {spec.kind!r} spends cannot be seen; use max_calls_per_h, or give "
            "base_url and model (or llm) and let the class take that model as its argument llm"
        )
