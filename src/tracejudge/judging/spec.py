"""A judge as a frozen value, and the JudgeId that pins what it answers.

Importing this module loads no LLM library: `--help` and `config check` read specs only.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cached_property
from importlib import metadata
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tracejudge.judging.kinds import BUILT_IN, STOCK_EMBEDDERS, STOCK_NEEDS, STOCK_SCALES, STOCK_YES_NO, Kind, Need
from tracejudge.judging.prompts import PromptError, check_template, read_prompt
from tracejudge.judging.secret_like import holds_key, refuse_secrets
from tracejudge.judging.verdict import PARSER
from tracejudge.scores import JudgeId

_IMPORT_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z")

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

TYPICAL_MOST_REPLY_TOKENS: Final = 4_096
"""Output set aside for one call where nothing bounds it: a long reply with reasoning. A longer one costs more than was
set aside, so a money cap without `max_tokens` can be passed by the excess of the calls in flight."""

_REPLY_BOUNDS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")


class JudgeSpec(BaseModel):
    """One judge, as configured.

    `kind` is the name of a built-in kind, or "package.module:Class" of a LlamaIndex BaseEvaluator. A judge that calls a
    model names it by `base_url` + `model` (any OpenAI-compatible endpoint) or by `llm` + `llm_options` (any LlamaIndex
    LLM class). Keys never stand here: `api_key_env` names the environment variable.

    A class of one's own is taken to call a model, and needs a cap, until `calls_model = false` says otherwise. The
    calls it makes by itself cannot be seen: each evaluation counts as one, its cost is unknown, and `max_usd_per_day`
    is refused. LlamaIndex's own evaluators get the judged texts as they are, without the markers that keep a text of
    the built-in kinds from speaking to the judge.
    """

    # Inputs are left out of what pydantic says: a refused value may be the very key that should not stand here.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    kind: str
    measures: str = ""  # "" takes the kind's
    code: Annotated[int, Field(ge=1)] = 1  # of your own class: raise it when its behaviour changes
    options: Mapping[str, Any] = Field(default_factory=dict)  # keyword arguments of your own class
    needs: tuple[Need, ...] | None = None  # None takes the kind's
    scale: tuple[float, float] | None = None  # of your own class's scores, (0, 1) by default; mapped onto [0, 1]
    calls_model: bool = True  # of your own class; the kind's for built-in ones. Judges that call a model need a cap

    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    llm: str | None = None
    llm_options: Mapping[str, Any] = Field(default_factory=dict)
    temperature: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = 0.0  # None: not sent
    max_tokens: Annotated[int, Field(ge=1)] | None = 512  # None: not sent
    extra_body: Mapping[str, Any] = Field(default_factory=dict)  # further fields of the request, such as seed
    context_window_tokens: Annotated[int, Field(ge=256)] = 128_000
    prompt: str | None = None  # your own text instead of the kind's prompt

    threshold: Annotated[float, Field(ge=0.0, le=1.0)] | None = None  # None takes the kind's

    timeout_s: Annotated[float, Field(gt=0.0, le=3600.0)] = 60.0  # of one call
    max_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    concurrency: Annotated[int, Field(ge=1, le=1024)] = 8  # most calls in flight; fewer while the endpoint takes fewer
    max_requests_per_min: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    max_tokens_per_min: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None

    usd_per_million_input_tokens: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    usd_per_million_output_tokens: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    max_calls_per_h: Annotated[int, Field(ge=0)] | None = None
    max_usd_per_day: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _calls_model_of_the_kind(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("calls_model") is None:
            kind = data.get("kind")
            known = BUILT_IN.get(kind) if isinstance(kind, str) else None
            return {**data, "calls_model": known.calls_model if known is not None else True}
        return data

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, value: str) -> str:
        if value not in BUILT_IN and not _IMPORT_PATH.match(value):
            known = ", ".join(map(repr, BUILT_IN))
            raise ValueError(f"{value!r} is neither one of {known} nor an import path 'package.module:Class'")
        return value

    @field_validator("llm")
    @classmethod
    def _llm_is_a_path(cls, value: str | None) -> str | None:
        if value is not None and not _IMPORT_PATH.match(value):
            raise ValueError(f"{value!r} is not an import path 'package.module:Class'")
        return value

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
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
        return value.rstrip("/")

    @field_validator("llm_options", "extra_body", "options")
    @classmethod
    def _no_secrets(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        refuse_secrets(value)
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"must be plain JSON values: {error}") from error
        return value

    @model_validator(mode="after")
    def _whole(self) -> JudgeSpec:
        kind = self.built_in
        if kind is not None:
            if kind.calls_model and self.llm is None and (self.base_url is None or self.model is None):
                raise ValueError(
                    f"kind {self.kind!r} calls a model: give base_url and model (an OpenAI-compatible endpoint), "
                    "or llm (import path of a LlamaIndex LLM)"
                )
            if not kind.calls_model and (self.llm or self.base_url or self.model):
                raise ValueError(f"kind {self.kind!r} calls no model: remove llm, base_url and model")
            if self.options:
                raise ValueError(f"options: kind {self.kind!r} takes none; they are for your own class")
            if kind.default_threshold is None and self.threshold is not None:
                raise ValueError(f"threshold: kind {self.kind!r} answers yes or no; remove it")
            if self.needs is not None or self.code != 1 or self.scale is not None:
                raise ValueError(f"needs, code, scale: fixed for kind {self.kind!r}; they are for your own class")
            if self.calls_model != kind.calls_model:
                raise ValueError(f"calls_model: fixed for kind {self.kind!r}; it is for your own class")
        else:
            self._counted()
        if self.scale is not None and not self.scale[0] < self.scale[1]:
            raise ValueError("scale: its first number, the worst score, must be below its second, the best")
        if self.llm is not None and self.base_url is not None:
            raise ValueError("llm and base_url exclude each other; an LLM class takes its URL in llm_options")
        if self.llm is None and (self.base_url is None) != (self.model is None):
            raise ValueError("base_url and model belong together")
        if self.prompt is not None:
            if kind is None or kind.prompt is None:
                raise ValueError(f"prompt: kind {self.kind!r} has no prompt of ours to replace")
            try:
                check_template(self.prompt, required=kind.needs)
            except PromptError as error:
                raise ValueError(f"prompt: {error}") from error
        if self.max_usd_per_day is not None and not self.priced:
            raise ValueError(
                "max_usd_per_day: money cannot be counted without prices; set usd_per_million_input_tokens and "
                "usd_per_million_output_tokens, or use max_calls_per_h"
            )
        return self

    def _counted(self) -> None:
        """Raises ValueError where a class that is not ours would make calls that no cap sees."""
        if self.asks_model:
            if not self.calls_model:
                raise ValueError("calls_model = false: llm and base_url name a model to call; remove one or the other")
            return
        if self.stock and self.kind.partition(":")[2] not in STOCK_EMBEDDERS:
            raise ValueError(
                f"kind {self.kind!r} calls a model, and LlamaIndex would fall back to its global Settings.llm, whose "
                "calls nobody counts or caps: give base_url and model, or llm (import path of a LlamaIndex LLM)"
            )
        if self.max_usd_per_day is not None:
            raise ValueError(
                f"max_usd_per_day: what kind {self.kind!r} spends cannot be seen; use max_calls_per_h, or give "
                "base_url and model (or llm) and let the class take that model as its argument llm"
            )

    @property
    def built_in(self) -> Kind | None:
        """The facts of the built-in kind, or None for a class of one's own."""
        return BUILT_IN.get(self.kind)

    @property
    def heuristic(self) -> bool:
        """True for judges that only look at words: their scores say so wherever they appear."""
        return self.built_in is not None and self.built_in.heuristic

    @property
    def stock(self) -> bool:
        """True for LlamaIndex's own evaluators."""
        return self.kind.startswith("llama_index.")

    @property
    def asks_model(self) -> bool:
        """True when the spec names the model that is asked: each of its calls is seen, counted and priced."""
        if self.built_in is not None:
            return self.built_in.calls_model
        return self.llm is not None or self.base_url is not None

    @property
    def most_reply_tokens(self) -> int:
        """Tokens of output to set aside for one call: the bound that the request carries, else a typical one."""
        for fields in (self.extra_body, self.llm_options, {"max_tokens": self.max_tokens}):
            for name in _REPLY_BOUNDS:
                bound = fields.get(name)
                if isinstance(bound, int) and not isinstance(bound, bool) and bound > 0:
                    return bound
        return TYPICAL_MOST_REPLY_TOKENS

    @property
    def priced(self) -> bool:
        return self.usd_per_million_input_tokens is not None and self.usd_per_million_output_tokens is not None

    @property
    def criterion(self) -> str:
        """What the verdicts say something about, comparable with human labels of that criterion."""
        return self.measures or (self.built_in.measures if self.built_in is not None else self.name)

    @property
    def model_name(self) -> str:
        """The model asked, "" where there is none."""
        return self.model or str(self.llm_options.get("model", ""))

    @property
    def passing_threshold(self) -> float:
        """The least score that passes."""
        if self.threshold is not None:
            return self.threshold
        default = self.built_in.default_threshold if self.built_in is not None else None
        return 0.5 if default is None else default

    @property
    def required(self) -> tuple[Need, ...]:
        """What a trace must have to be judged."""
        if self.needs is not None:
            return self.needs
        if self.built_in is not None:
            return self.built_in.needs
        return STOCK_NEEDS.get(self.kind.partition(":")[2], ("response",)) if self.stock else ("response",)

    @property
    def score_scale(self) -> tuple[float, float]:
        """Worst and best score that the evaluator gives."""
        if self.scale is not None:
            return self.scale
        return STOCK_SCALES.get(self.kind.partition(":")[2], (0.0, 1.0)) if self.stock else (0.0, 1.0)

    @property
    def endpoint(self) -> str:
        """What concurrency is bounded by: judges of one endpoint share its limit."""
        return self.base_url or self.llm or self.kind

    def prompt_text(self) -> str:
        """The text the judge's user message is made from; "" where there is none."""
        if self.prompt is not None:
            return self.prompt
        kind = self.built_in
        return read_prompt(kind.prompt) if kind is not None and kind.prompt is not None else ""

    def judge_id(self) -> JudgeId:
        """`name@` and twelve hex digits of everything that could change a verdict."""
        return self._judge_id

    @cached_property
    def _judge_id(self) -> JudgeId:
        payload = json.dumps(self.identity(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return JudgeId(f"{self.name}@{hashlib.sha256(payload.encode()).hexdigest()[:12]}")

    def identity(self) -> dict[str, Any]:
        """What the JudgeId is the hash of. Only fields with a say: a new setting left at its default changes no id.

        Left out: keys, caps, prices, timeouts, attempts, concurrency, and `base_url`. An endpoint moves (a gateway, a
        region, a port) while the model stays, and each move would start every chart and alert anew; a name that stands
        for another model elsewhere shows in the model and fingerprint reported with every score.
        """
        kind = self.built_in
        identity: dict[str, Any] = {"kind": self.kind}
        if kind is not None:
            identity |= {"code": kind.code, "parser": kind.parser, "combination": kind.combination}
        else:
            identity |= {"code": self.code, "options": dict(self.options), "needs": sorted(self.required)}
            identity["scale"] = list(self.score_scale)
            if self.stock:
                # Upstream changes prompts and parsing between releases, without a number of its own for it.
                identity["llama_index_core"] = metadata.version("llama-index-core")
                if self.kind.partition(":")[2] in STOCK_YES_NO:
                    identity["parser"] = PARSER
        if kind is None or kind.default_threshold is not None:
            identity["threshold"] = self.passing_threshold
        if self.asks_model:
            options = {key: value for key, value in self.llm_options.items() if key not in TRANSPORT_OPTIONS}
            identity |= {
                "model": self.model,
                "llm": self.llm,
                "llm_options": options,
                "temperature": self.temperature,
                "max_tokens": self.max_tokens,
                "extra_body": dict(self.extra_body),
                "context_window_tokens": self.context_window_tokens,
                "system": read_prompt("system"),
                "prompt": self.prompt_text(),
            }
        return identity
