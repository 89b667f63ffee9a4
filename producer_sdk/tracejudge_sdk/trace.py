"""The wire contract: what a served answer looks like when it is logged (schema_version 1).

Three kinds of record travel on the queue, one JSON object each, with the trace id as record key: a `Trace` (a whole
answer), a `TracePart` (some fields of an answer, the rest to come) and a `Feedback` (what a user said about it later).
Unknown fields are ignored, so that producers and consumers upgrade in any order; a higher `schema_version` is refused.
Types are strict, because a guess would be stored as a fact: no number for a text, no text for a number or a bool, no
number for an instant; a whole number is a number. Texts are what UTF-8 can hold, numbers are finite.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tracejudge_sdk.json_values import check_json

SCHEMA_VERSION: Final = 1
DEFAULT_ENVIRONMENT: Final = "production"
MAX_ID_CHARS: Final = 128
MAX_NAME_CHARS: Final = 256
MIN_PROBABILITY: Final = 1e-6
"""A trace stands for 1 / its chance: below this one record could outweigh all others and drown every rate."""


EARLIEST: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
LATEST: Final = datetime(2100, 1, 1, tzinfo=timezone.utc)
"""Event times lie in [EARLIEST, LATEST): minutes are counted in 32 bits in some stores, which end in 2106."""


def _text_or_instant(value: Any) -> Any:
    # pydantic would read 1700000000 as seconds and 1700000000000 as milliseconds: a guess.
    if isinstance(value, datetime) or (isinstance(value, str) and value[4:5] == "-"):
        return value
    raise ValueError("needs to be a text such as 2026-01-31T12:00:00Z")


def _to_utc_milliseconds(value: datetime) -> datetime:
    if value.tzinfo is None or value.utcoffset() is None:
        raise ValueError("needs a time zone, for example 2026-01-31T12:00:00Z")
    try:
        value = value.astimezone(timezone.utc)
    except OverflowError:
        value = LATEST
    if not EARLIEST <= value < LATEST:
        raise ValueError(f"is not in [{EARLIEST:%Y-%m-%d}, {LATEST:%Y-%m-%d})")
    # The stored precision is one millisecond; cutting here makes a trace equal to itself after a round trip.
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def _checked_metadata(value: dict[str, Any]) -> dict[str, Any]:
    check_json(value)
    return value


UtcMilliseconds = Annotated[datetime, BeforeValidator(_text_or_instant), AfterValidator(_to_utc_milliseconds)]
# A length constraint, even one of 0, makes pydantic look at the text itself and refuse lone surrogates.
Text = Annotated[str, Field(min_length=0, strict=True)]
TraceId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS, strict=True)]
Name = Annotated[str, Field(max_length=MAX_NAME_CHARS, strict=True)]
RequiredName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Probability = Annotated[float, Field(ge=MIN_PROBABILITY, le=1.0, strict=True)]
FiniteFloat = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Milliseconds = Annotated[float, Field(ge=0.0, allow_inf_nan=False, strict=True)]
Metadata = Annotated[dict[str, Any], AfterValidator(_checked_metadata)]
Status = Literal["ok", "error", "incomplete"]


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")


class SourceNode(_Wire):
    """A retrieved passage with its retrieval score. Without text it is an id only and never judged as text."""

    node_id: Text = ""
    text: Text | None = None
    score: FiniteFloat | None = None
    metadata: Metadata = Field(default_factory=dict)


class Turn(_Wire):
    """One earlier turn of a conversation."""

    role: Text
    content: Text


class Trace(_Wire):
    """One served answer: what was asked, what was answered, and from which passages."""

    schema_version: Literal[1] = SCHEMA_VERSION
    kind: Literal["trace"] = "trace"
    trace_id: TraceId
    app: RequiredName
    environment: RequiredName = DEFAULT_ENVIRONMENT
    version: Name = ""
    event_time: UtcMilliseconds
    query: Text
    response: Text | None = None
    status: Status = "ok"
    error: Text | None = None
    source_nodes: tuple[SourceNode, ...] = ()
    history: tuple[Turn, ...] = ()
    reference: Text | None = None
    expected_ids: tuple[Text, ...] = ()
    case_id: Text | None = None
    latency_ms: Milliseconds | None = None
    model: Name | None = None
    prompt_version: Name | None = None
    index_version: Name | None = None
    category: Name | None = None
    session_id: Name | None = None
    user_id: Name | None = None
    language: Name | None = None
    tags: dict[Text, Text] = Field(default_factory=dict)
    truncated: Flag = False
    lossy: Flag = False
    head_probability: Probability = 1.0
    sdk: Name = ""


class TracePart(_Wire):
    """Some fields of a trace whose rest is still to come, such as the start of a streamed answer.

    `final` says that no further part follows. Fields that are None say nothing and leave those of other parts alone.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    kind: Literal["part"] = "part"
    trace_id: TraceId
    app: RequiredName
    environment: RequiredName = DEFAULT_ENVIRONMENT
    event_time: UtcMilliseconds
    final: Flag = False
    version: Name | None = None
    query: Text | None = None
    response: Text | None = None
    status: Status | None = None
    error: Text | None = None
    source_nodes: tuple[SourceNode, ...] | None = None
    history: tuple[Turn, ...] | None = None
    reference: Text | None = None
    expected_ids: tuple[Text, ...] | None = None
    case_id: Text | None = None
    latency_ms: Milliseconds | None = None
    model: Name | None = None
    prompt_version: Name | None = None
    index_version: Name | None = None
    category: Name | None = None
    session_id: Name | None = None
    user_id: Name | None = None
    language: Name | None = None
    tags: dict[Text, Text] | None = None
    truncated: Flag = False
    lossy: Flag = False
    head_probability: Probability = 1.0
    sdk: Name = ""


class Feedback(_Wire):
    """What somebody said later about an answer: a number (thumbs are 1 and 0), a comment, or both."""

    schema_version: Literal[1] = SCHEMA_VERSION
    kind: Literal["feedback"] = "feedback"
    feedback_id: TraceId
    trace_id: TraceId
    app: RequiredName
    environment: RequiredName = DEFAULT_ENVIRONMENT
    value: FiniteFloat | None = None
    comment: Text | None = None
    event_time: UtcMilliseconds
    sdk: Name = ""


Record = Trace | TracePart | Feedback
