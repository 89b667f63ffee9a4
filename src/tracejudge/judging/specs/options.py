"""The options of the built-in kinds, as they stand under `options` of a judge's settings."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tracejudge.judging.specs.regex_safety import unsafe_repeat

_IMPORT_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z")
MOST_GUIDELINES: Final = 20


class _Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class GuidelineOptions(_Options):
    """`guidelines`: your rules in plain words, one text or a list of them."""

    guidelines: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1, max_length=MOST_GUIDELINES)
    ]

    @field_validator("guidelines", mode="before")
    @classmethod
    def _one_is_a_list_of_one(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class EmbeddingOptions(_Options):
    """`embed_model`: import path of a LlamaIndex embedding class; `embed_options`: its keyword arguments."""

    embed_model: str
    embed_options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("embed_model")
    @classmethod
    def _is_a_path(cls, value: str) -> str:
        if not _IMPORT_PATH.match(value):
            raise ValueError("is not an import path 'package.module:Class'")
        return value


class RankOptions(_Options):
    """`k`: how many of the first source nodes count; all by default."""

    k: Annotated[int, Field(ge=1)] | None = None


class LatencyOptions(_Options):
    """`max_ms`: the longest time in milliseconds that passes."""

    max_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class LengthOptions(_Options):
    """`min` and `max` of the response, both passing, counted in `unit`."""

    min: Annotated[int, Field(ge=0)] | None = None
    max: Annotated[int, Field(ge=0)] | None = None
    unit: Literal["characters", "words"] = "characters"

    @model_validator(mode="after")
    def _some_bound(self) -> LengthOptions:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is above max: no response could pass")
        return self


class RegexOptions(_Options):
    """`pattern` (Python's re, searched anywhere) that a response must, or with `must_not_match` must not, hold."""

    pattern: Annotated[str, Field(min_length=1, max_length=2_000)]
    must_not_match: bool = False
    ignore_case: bool = False

    @field_validator("pattern")
    @classmethod
    def _usable(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from error
        if (found := unsafe_repeat(value)) is not None:
            raise ValueError(f"{found}: on a hostile text it could run for ever; write it without a repeat in a repeat")
        return value


class JsonSchemaOptions(_Options):
    """`json_schema` that the response, as JSON, must meet; one surrounding code fence is allowed unless `bare`."""

    json_schema: dict[str, Any]
    bare: bool = False
