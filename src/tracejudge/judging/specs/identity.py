"""What a JudgeId is the hash of: everything that could change a verdict, and nothing else.

Left out: keys, caps, prices, timeouts, attempts, concurrency, `shadow`, and `base_url`. An endpoint moves (a gateway, a
region, a port) while the model stays, and each move would start every chart and alert anew; a name that stands for
another model elsewhere shows in the model and fingerprint reported with every score.

A setting left at its default adds nothing, so that a new one changes no id.
"""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from tracejudge.judging.replies.verdict import PARSER
from tracejudge.judging.specs.stock import STOCK_CODE, STOCK_READINGS
from tracejudge.scores import JudgeId

if TYPE_CHECKING:
    from tracejudge.judging.specs.spec import JudgeSpec

TRANSPORT_OPTIONS: Final = frozenset(
    {
        "api_base",
        "azure_endpoint",
        "base_url",
        "default_headers",
        "endpoint",
        "keep_alive",
        "max_retries",
        "num_workers",
        "region_name",
        "request_timeout",
        "reuse_client",
        "timeout",
    }
)
"""Options of LlamaIndex LLMs that say how to reach a model and not what it answers: no part of a JudgeId."""

PACKING: Final = 3
"""Raised when texts are packed into a judge's window, or kept within markers, otherwise than before; part of every
JudgeId that asks a model."""


def judge_id_of(spec: JudgeSpec) -> JudgeId:
    """`name@` and twelve hex digits of the identity."""
    payload = json.dumps(identity_of(spec), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return JudgeId(f"{spec.name}@{hashlib.sha256(payload.encode()).hexdigest()[:12]}")


def identity_of(spec: JudgeSpec) -> dict[str, Any]:
    """The JSON values that the JudgeId is the hash of."""
    kind = spec.built_in
    identity: dict[str, Any] = {"kind": spec.kind}
    if kind is not None:
        identity |= {"code": kind.code, "parser": kind.parser, "combination": kind.combination}
        if spec.kind_options is not None:
            options = spec.kind_options.model_dump(mode="json", exclude_defaults=True)
            identity |= {"options": _without_transport(options)}
    else:
        identity |= {"code": spec.code, "options": dict(spec.options), "needs": sorted(spec.required)}
        identity["scale"] = list(spec.score_scale)
        if spec.stock:
            # Upstream changes prompts and parsing between releases, without a number of its own for it.
            identity |= {"llama_index_core": metadata.version("llama-index-core"), "reading": STOCK_CODE}
            if spec.kind.partition(":")[2] in STOCK_READINGS:
                identity["parser"] = PARSER
    if kind is None or kind.default_threshold is not None:
        identity["threshold"] = spec.passing_threshold
    if spec.repeats != 1:
        identity |= {"repeats": spec.repeats, "repeats_combined": "majority"}
    if spec.asks_model:
        identity |= {
            "model": spec.model,
            "llm": spec.llm,
            "llm_options": {key: value for key, value in spec.llm_options.items() if key not in TRANSPORT_OPTIONS},
            "temperature": spec.temperature,
            "max_tokens": spec.max_tokens,
            "extra_body": dict(spec.extra_body),
            "context_window_tokens": spec.context_window_tokens,
            "system": spec.system_text(),
            "prompt": spec.prompt_text(),
        }
        if kind is not None:
            identity |= {"packing": PACKING, "max_calls_per_trace": spec.max_calls_per_trace}
            identity["response_format"] = spec.response_format()
    return identity


def _without_transport(options: dict[str, Any]) -> dict[str, Any]:
    nested = options.get("embed_options")
    if not isinstance(nested, dict):
        return options
    return {**options, "embed_options": {k: v for k, v in nested.items() if k not in TRANSPORT_OPTIONS}}
