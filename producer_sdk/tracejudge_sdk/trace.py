"""The wire contract: what a served answer looks like when it is logged (schema_version 1).

Three kinds of record travel on the queue, one JSON object each, with the trace id as record key: a `Trace` (a whole
answer), a `TracePart` (some fields of an answer, the rest to come) and a `Feedback` (what a user said about it later).
Unknown fields are ignored, so that producers and consumers upgrade in any order; a higher `schema_version` is refused.
"""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

SCHEMA_VERSION: Final = 1
DEFAULT_ENVIRONMENT: Final = "production"
MAX_ID_CHARS: Final = 128
MAX_NAME_CHARS: Final = 256


def new_trace_id() -> str:
    """A UUIDv7 as text: unique, and sorted by the time it was made (RFC 9562, section 5.7)."""
    milliseconds = time.time_ns() // 1_000_000
    random_bits = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80
    value |= 0x7 << 76 | (random_bits >> 68) << 64
    value |= 0b10 << 62 | (random_bits & 0x3FFF_FFFF_FFFF_FFFF)
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _to_utc_milliseconds(value: datetime) -> datetime:
    if value.tzinfo is None or value.utcoffset() is None:
        raise ValueError("needs a time zone, for example 2026-01-31T12:00:00Z")
    value = value.astimezone(timezone.utc)
    # The stored precision is one millisecond; cutting here makes a trace equal to itself after a round trip.
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


UtcMilliseconds = Annotated[datetime, AfterValidator(_to_utc_milliseconds)]
TraceId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
Name = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
RequiredName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
Probability = Annotated[float, Field(gt=0.0, le=1.0)]
FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
Status = Literal["ok", "error", "incomplete"]


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")


class SourceNode(_Wire):
    """A retrieved passage with its retrieval score. Without text it is an id only and never judged as text."""

    node_id: str = ""
    text: str | None = None
    score: FiniteFloat | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class Turn(_Wire):
    """One earlier turn of a conversation."""

    role: str
    content: str


class Trace(_Wire):
    """One served answer: what was asked, what was answered, and from which passages."""

    schema_version: Literal[1] = SCHEMA_VERSION
    kind: Literal["trace"] = "trace"
    trace_id: TraceId
    app: RequiredName
    environment: RequiredName = DEFAULT_ENVIRONMENT
    version: Name = ""
    event_time: UtcMilliseconds
    query: str
    response: str | None = None
    status: Status = "ok"
    error: str | None = None
    source_nodes: tuple[SourceNode, ...] = ()
    history: tuple[Turn, ...] = ()
    reference: str | None = None
    expected_ids: tuple[str, ...] = ()
    case_id: str | None = None
    latency_ms: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    model: Name | None = None
    prompt_version: Name | None = None
    index_version: Name | None = None
    category: Name | None = None
    session_id: Name | None = None
    user_id: Name | None = None
    language: Name | None = None
    tags: dict[str, str] = Field(default_factory=dict)
    truncated: bool = False
    lossy: bool = False
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
    final: bool = False
    version: Name | None = None
    query: str | None = None
    response: str | None = None
    status: Status | None = None
    error: str | None = None
    source_nodes: tuple[SourceNode, ...] | None = None
    history: tuple[Turn, ...] | None = None
    reference: str | None = None
    expected_ids: tuple[str, ...] | None = None
    case_id: str | None = None
    latency_ms: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    model: Name | None = None
    prompt_version: Name | None = None
    index_version: Name | None = None
    category: Name | None = None
    session_id: Name | None = None
    user_id: Name | None = None
    language: Name | None = None
    tags: dict[str, str] | None = None
    truncated: bool = False
    lossy: bool = False
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
    comment: str | None = None
    event_time: UtcMilliseconds
    sdk: Name = ""


Record = Trace | TracePart | Feedback
