"""The quick way from bytes to a Trace, where msgspec is installed: for the record that is as our own SDK writes it.

Whoever reads a queue does this with every record, and most of what a whole model's validation costs is neither reading
nor checking. Here msgspec reads and checks in one pass, and the model is put together from what it gives. Whatever is
not plainly right (another kind of record, an unknown field, an instant written otherwise, a lone surrogate) is left to
`codec`, which reads it the slow way, mends what may be mended and says what is wrong. So this may refuse too much, and
accepts nothing that the slow way refuses.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from pydantic import BaseModel

from tracejudge_sdk.json_values import check_json
from tracejudge_sdk.trace import (
    DEFAULT_ENVIRONMENT,
    MAX_ID_CHARS,
    MAX_NAME_CHARS,
    MIN_PROBABILITY,
    SourceNode,
    Trace,
    Turn,
)

# UTC, in the years that the contract allows. Further digits are cut, as the contract cuts them.
_INSTANT: Final = r"^(?:19[7-9]\d|20\d\d)-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3,9})?(?:Z|\+00:00)\Z"

_Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARS)]
_Name = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
_RequiredName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]


# What stands in unknown fields is passed over without a look: not even that it is UTF-8. The slow way looks.
class _Node(msgspec.Struct, forbid_unknown_fields=True):
    node_id: str = ""
    text: str | None = None
    score: float | None = None
    metadata: dict[str, Any] = {}  # msgspec makes a new one for each


class _Turn(msgspec.Struct, forbid_unknown_fields=True):
    role: str
    content: str


class _Trace(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of `Trace` in their order, which a test compares."""

    schema_version: Literal[1]
    kind: Literal["trace"]
    trace_id: _Id
    app: _RequiredName
    environment: _RequiredName = DEFAULT_ENVIRONMENT
    version: _Name = ""
    event_time: Annotated[str, Meta(pattern=_INSTANT)]
    query: str
    response: str | None = None
    status: Literal["ok", "error", "incomplete"] = "ok"
    error: str | None = None
    source_nodes: tuple[_Node, ...] = ()
    history: tuple[_Turn, ...] = ()
    reference: str | None = None
    expected_ids: tuple[str, ...] = ()
    case_id: str | None = None
    latency_ms: Annotated[float, Meta(ge=0.0)] | None = None
    model: _Name | None = None
    prompt_version: _Name | None = None
    index_version: _Name | None = None
    category: _Name | None = None
    session_id: _Name | None = None
    user_id: _Name | None = None
    language: _Name | None = None
    tags: dict[str, str] = {}
    truncated: bool = False
    lossy: bool = False
    head_probability: Annotated[float, Meta(ge=MIN_PROBABILITY, le=1.0)] = 1.0
    sdk: _Name = ""


# Of a trace that was read, every field counts as given. One set for all: pydantic copies it before it changes it.
_TRACE_FIELDS: Final = set(Trace.model_fields)
_NODE_FIELDS: Final = set(SourceNode.model_fields)
_TURN_FIELDS: Final = set(Turn.model_fields)

_read: Final = msgspec.json.Decoder(_Trace).decode
_as_dict: Final = msgspec.structs.asdict
_instant: Final = datetime.fromisoformat
# The models are frozen, and their own setters would say so.
_new: Final = object.__new__
_put_values: Final = BaseModel.__dict__["__dict__"].__set__
_put_given: Final = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_put_extra: Final = BaseModel.__dict__["__pydantic_extra__"].__set__
_put_private: Final = BaseModel.__dict__["__pydantic_private__"].__set__


def read_trace(data: bytes) -> Trace | None:
    """The trace held by `data`, equal to what validating the model gives; None where the slow way has to decide."""
    # Written out in one piece: at some ten microseconds a record, each call of a function of one's own would show.
    try:
        read = _read(data)
        values = _as_dict(read)
        at = read.event_time
        # Python 3.10 knows no Z, and only fractions of three or six digits.
        values["event_time"] = _instant((at[:23] if at[19] == "." else at[:19]) + "+00:00")
        if read.source_nodes:
            nodes = []
            for node in read.source_nodes:
                if node.metadata:
                    check_json(node.metadata)
                made = _new(SourceNode)
                _put_values(made, _as_dict(node))
                _put_given(made, _NODE_FIELDS)
                _put_extra(made, None)
                _put_private(made, None)
                nodes.append(made)
            values["source_nodes"] = tuple(nodes)
    except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        return None
    if read.history:
        values["history"] = tuple([_turn(turn) for turn in read.history])
    trace = _new(Trace)
    _put_values(trace, values)
    _put_given(trace, _TRACE_FIELDS)
    _put_extra(trace, None)
    _put_private(trace, None)
    return trace


def _turn(read: _Turn) -> Turn:
    turn = _new(Turn)
    _put_values(turn, _as_dict(read))
    _put_given(turn, _TURN_FIELDS)
    _put_extra(turn, None)
    _put_private(turn, None)
    return turn
