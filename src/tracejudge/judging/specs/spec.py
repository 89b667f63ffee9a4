"""A judge as a frozen value, and the JudgeId that pins what it answers.

Importing this module loads no LLM library: `--help` and `config check` read specs only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tracejudge.judging.prompts import read_prompt
from tracejudge.judging.specs.caps import Caps
from tracejudge.judging.specs.identity import identity_of, judge_id_of
from tracejudge.judging.specs.kinds import BUILT_IN, Kind, Need
from tracejudge.judging.specs.rules import check_whole, import_path, plain_url, plain_values, whole_kind
from tracejudge.judging.specs.stock import STOCK_NEEDS, STOCK_SCALES, STOCK_THRESHOLDS
from tracejudge.scores import JudgeId
from tracejudge.variable_name import VariableName

TYPICAL_MOST_REPLY_TOKENS: Final = 4_096
"""Output set aside for one call where nothing bounds it: a long reply with reasoning. A longer one costs more than was
set aside, so a money cap without `max_tokens` can be passed by the excess of the calls in flight."""

REPLY_BOUNDS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""Names under which a request may bound its reply; one in `extra_body` is sent in place of `max_tokens`."""


class JudgeSpec(BaseModel):
    """The settings of one judge.

    `kind` is the name of a built-in kind (JUDGES.md lists them), of one of LlamaIndex's own evaluators, of an entry
    point of the group "tracejudge.judges", or "package.module:Class" of a LlamaIndex BaseEvaluator. A judge that calls
    a model names it by `base_url` + `model` (any OpenAI-compatible endpoint) or by `llm` + `llm_options` (any
    LlamaIndex LLM class). Keys never stand here: `api_key_env` names the environment variable.

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
    shadow: bool = False  # scores under run "shadow": no rate and no alert reads it
    code: Annotated[int, Field(ge=1)] = 1  # of your own class: raise it when its behaviour changes
    options: Mapping[str, Any] = Field(default_factory=dict)  # of the kind, or keyword arguments of your own class
    needs: tuple[Need, ...] | None = None  # None takes the kind's
    scale: tuple[float, float] | None = None  # of your own class's scores, (0, 1) by default; mapped onto [0, 1]
    calls_model: bool = True  # of your own class; the kind's for built-in ones. Judges that call a model need a cap

    base_url: str | None = None
    model: str | None = None
    api_key_env: VariableName | None = None
    llm: str | None = None
    llm_options: Mapping[str, Any] = Field(default_factory=dict)
    temperature: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = 0.0  # None: not sent
    max_tokens: Annotated[int, Field(ge=1)] | None = 512  # None: not sent
    extra_body: Mapping[str, Any] = Field(default_factory=dict)  # further fields of the request, such as seed
    structured_output: bool = True  # ask for JSON by schema where the endpoint takes it
    context_window_tokens: Annotated[int, Field(ge=256)] = 128_000
    max_calls_per_trace: Annotated[int, Field(ge=1, le=1000)] = 16  # parts of what does not fit the window
    prompt: str | None = None  # your own text instead of the kind's prompt; `prompt_file` reads it from a file

    threshold: Annotated[float, Field(ge=0.0, le=1.0)] | None = None  # None takes the kind's
    repeats: Annotated[int, Field(ge=1, le=15)] = 1  # ask so often and take the majority

    timeout_s: Annotated[float, Field(gt=0.0, le=3600.0)] = 60.0  # of one call
    max_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    concurrency: Annotated[int, Field(ge=1, le=1024)] = 8  # most calls in flight; fewer while the endpoint takes fewer
    max_requests_per_min: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    max_tokens_per_min: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None

    usd_per_million_input_tokens: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    usd_per_million_output_tokens: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    max_calls_per_h: Annotated[int, Field(ge=0)] | None = None
    max_calls_per_day: Annotated[int, Field(ge=0)] | None = None
    max_usd_per_h: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    max_usd_per_day: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        values = dict(data)
        if values.get("calls_model") is None:
            kind = values.get("kind")
            known = BUILT_IN.get(kind) if isinstance(kind, str) else None
            values["calls_model"] = known.calls_model if known is not None else True
        if (file := values.pop("prompt_file", None)) is not None:
            # The text is what counts, and what the JudgeId is of; where it came from is not kept.
            if values.get("prompt") is not None:
                raise ValueError("prompt and prompt_file exclude each other")
            try:
                values["prompt"] = Path(str(file)).read_text(encoding="utf-8-sig").strip()
            except (OSError, UnicodeDecodeError) as error:
                # The words alone: all of an OSError would say the file's name again.
                why = error.strerror if isinstance(error, OSError) else str(error)
                raise ValueError(f"prompt_file: {file} cannot be read: {why}") from error
        return values

    _known_kind = field_validator("kind")(whole_kind)
    _llm_is_a_path = field_validator("llm")(import_path)
    _plain_url = field_validator("base_url")(plain_url)
    _no_secrets = field_validator("llm_options", "extra_body", "options")(plain_values)

    @model_validator(mode="after")
    def _whole(self) -> JudgeSpec:
        check_whole(self)
        return self

    @property
    def built_in(self) -> Kind | None:
        """The facts of the built-in kind, or None for a class of one's own."""
        return BUILT_IN.get(self.kind)

    @cached_property
    def kind_options(self) -> BaseModel | None:
        """The options of a built-in kind, checked and complete; None where it takes none."""
        kind = self.built_in
        return (
            kind.options.model_validate(dict(self.options)) if kind is not None and kind.options is not None else None
        )

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
            return self.built_in.asks_model
        return self.llm is not None or self.base_url is not None

    @property
    def usual_calls(self) -> int:
        """Calls for a trace that fits the window, all attempts succeeding; 0 where no model is called."""
        if not self.calls_model:
            return 0
        return self.repeats * (self.built_in.calls if self.built_in is not None else 1)

    @cached_property
    def most_reply_tokens(self) -> int:
        """Tokens of output to set aside for one call: the bound that the request carries, else a typical one."""
        for fields in (self.extra_body, self.llm_options, {"max_tokens": self.max_tokens}):
            for name in REPLY_BOUNDS:
                bound = fields.get(name)
                if isinstance(bound, int) and not isinstance(bound, bool) and bound > 0:
                    return bound
        return TYPICAL_MOST_REPLY_TOKENS

    @property
    def caps(self) -> Caps:
        """The judge's own hard caps."""
        return Caps(
            max_calls_per_h=self.max_calls_per_h,
            max_calls_per_day=self.max_calls_per_day,
            max_usd_per_h=self.max_usd_per_h,
            max_usd_per_day=self.max_usd_per_day,
        )

    @property
    def priced(self) -> bool:
        return self.usd_per_million_input_tokens is not None and self.usd_per_million_output_tokens is not None

    @property
    def criterion(self) -> str:
        """The criterion of the verdicts, by which they are compared with human labels."""
        return self.measures or (self.built_in.measures if self.built_in is not None else "") or self.name

    @property
    def model_name(self) -> str:
        """The model asked, "" where there is none."""
        return self.model or str(self.llm_options.get("model", ""))

    @property
    def passing_threshold(self) -> float:
        """The least score that passes."""
        if self.threshold is not None:
            return self.threshold
        if self.stock:
            return STOCK_THRESHOLDS.get(self.kind.partition(":")[2], 0.5)
        default = self.built_in.default_threshold if self.built_in is not None else None
        return 0.5 if default is None else default

    @property
    def required(self) -> tuple[Need, ...]:
        """The fields that a trace must have to be judged."""
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

    def system_text(self) -> str:
        """The text of the system message: the rules of the markers, the shape of the reply; "" where there is none."""
        kind = self.built_in
        if kind is None or kind.shape is None:
            return ""
        return read_prompt("system").replace("{reply}", read_prompt(f"reply_{kind.shape.name}"))

    def response_format(self) -> dict[str, Any] | None:
        """The `response_format` of a request to an OpenAI-compatible endpoint, which makes the reply JSON of the
        judge's shape.

        None where it is not wanted, is set in `extra_body`, or the model is reached through a LlamaIndex class.
        """
        kind = self.built_in
        if kind is None or kind.shape is None or self.base_url is None or not self.structured_output:
            return None
        return None if "response_format" in self.extra_body else kind.shape.schema()

    def judge_id(self) -> JudgeId:
        """`name@` and twelve hex digits of everything that could change a verdict."""
        return self._judge_id

    @cached_property
    def _judge_id(self) -> JudgeId:
        return judge_id_of(self)

    def identity(self) -> dict[str, Any]:
        """What the JudgeId is the hash of; `identity` says what is in it and what is not."""
        return identity_of(self)
