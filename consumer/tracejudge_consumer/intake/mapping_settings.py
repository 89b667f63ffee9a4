"""The settings [intake.mapping]: where the fields of a trace are found in records of another format.

A field is a path, or a table with more to say about it. Only `query` must be there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tracejudge_consumer.intake.paths import JsonPath

EPOCHS = ("epoch_s", "epoch_ms", "epoch_us", "epoch_ns")


def _is_path(text: str) -> str:
    JsonPath.parse(text)
    return text


def _is_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (OSError, ValueError) as error:  # a path instead of a name, or a broken file
        raise ValueError(f'is not a time zone: write "UTC" or one such as "Europe/Berlin" ({error})') from error
    except KeyError as error:  # ZoneInfoNotFoundError
        raise ValueError('is not a time zone that this machine knows: write "UTC", or install tzdata') from error
    return name


def _is_time_format(text: str) -> str:
    if text != "iso" and text not in EPOCHS and "%" not in text:
        raise ValueError(
            f'is not "iso", one of {", ".join(EPOCHS)}, or a pattern of strptime such as "%d/%b/%Y %H:%M:%S"'
        )
    return text


Path = Annotated[str, AfterValidator(_is_path)]


def _path_or_table(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ValueSource(_Table):
    """A value: from a path, or the same one for every record."""

    path: Path | None = None
    const: str | int | float | bool | None = None
    values: dict[str, str] = Field(default_factory=dict)  # another word for what stands there, {"success" = "ok"}
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None  # numbers are multiplied by it
    required: bool = False  # a record without it is a dead letter

    @model_validator(mode="after")
    def _one_of_two(self) -> ValueSource:
        if (self.path is None) == (self.const is None):
            raise ValueError("give a path or a const, and not both")
        return self


class TimeSource(_Table):
    """An instant."""

    path: Path
    format: Annotated[str, AfterValidator(_is_time_format)] = "iso"
    zone: Annotated[str, AfterValidator(_is_zone)] | None = None  # of times that name none
    required: bool = False


class NodesSource(_Table):
    """A list of passages: objects, read by paths within each, or plain ids (or texts)."""

    path: Path
    each: Literal["id", "text"] = "id"  # what a plain text in the list is
    node_id: Path = "node_id"
    text: Path = "text"
    score: Path = "score"
    metadata: Path = "metadata"
    required: bool = False


class TurnsSource(_Table):
    """A list of earlier turns, each an object."""

    path: Path
    role: Path = "role"
    content: Path = "content"
    required: bool = False


Value = Annotated[ValueSource, BeforeValidator(_path_or_table)]
Instant = Annotated[TimeSource, BeforeValidator(_path_or_table)]
Nodes = Annotated[NodesSource, BeforeValidator(_path_or_table)]
Turns = Annotated[TurnsSource, BeforeValidator(_path_or_table)]


class MappingSettings(_Table):
    """The path of each field of a trace."""

    query: Value
    response: Value | None = None
    source_nodes: Nodes | None = None
    event_time: Instant | None = None
    trace_id: Value | None = None
    app: Value | None = None
    environment: Value | None = None
    version: Value | None = None
    status: Value | None = None
    error: Value | None = None
    history: Turns | None = None
    reference: Value | None = None
    expected_ids: Value | None = None
    case_id: Value | None = None
    latency_ms: Value | None = None
    model: Value | None = None
    prompt_version: Value | None = None
    index_version: Value | None = None
    category: Value | None = None
    session_id: Value | None = None
    user_id: Value | None = None
    language: Value | None = None
    head_probability: Value | None = None
    tags: dict[str, Value] = Field(default_factory=dict)
