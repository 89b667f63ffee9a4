"""What one judge says about one trace: LlamaIndex's EvaluationResult with nothing of ours lost on the way."""

from __future__ import annotations

from typing import Any, Final

from llama_index.core.evaluation.base import EvaluationResult
from pydantic import ConfigDict

from tracejudge.errors import JudgeGone
from tracejudge.judging.calls.guard import Failure
from tracejudge.judging.evaluation import CallRecord
from tracejudge.scores import Decision, InvalidReason

RAW_REPLY_CHARS: Final = 8_000
FEEDBACK_CHARS: Final = 2_000


class Judgement(EvaluationResult):
    """A verdict (`passing` and `score` set), an invalid result, or a reason for having none.

    LlamaIndex's own fields say the same in its words: everything without a verdict has `invalid_result` set and
    `passing` and `score` None, so stock code counts it as no failure.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    trace_id: str = ""
    invalid: InvalidReason | None = None
    decision: Decision | None = None
    code: str = ""  # with `decision`: its reason
    raw_reply: str = ""
    flags: tuple[str, ...] = ()
    model_reported: str = ""
    fingerprint: str = ""
    calls: tuple[CallRecord, ...] = ()
    latency_ms: float = 0.0
    gone: JudgeGone | None = None
    served: str = ""  # where a verdict that cost no call came from: "memory", "store", "in_flight"

    def but(self, **fields: Any) -> Judgement:
        """A shallow copy with these fields, unchecked: `model_copy` at a tenth of its cost, three times a trace."""
        copy = _new(Judgement)
        _set(copy, "__dict__", {**self.__dict__, **fields})
        _set(copy, "__pydantic_fields_set__", _EVERY_FIELD)
        _set(copy, "__pydantic_extra__", None)
        _set(copy, "__pydantic_private__", None)
        return copy


_new: Final = object.__new__
_set: Final = object.__setattr__

_EVERY_FIELD: Final = set(Judgement.model_fields)  # all of them are ours to set

NO_JUDGEMENT: Final = Judgement()
"""To begin with: `NO_JUDGEMENT.but(...)` is a Judgement of our own values, which need no check."""


def not_applicable(code: str, detail: str, *, decision: Decision = Decision.NOT_APPLICABLE) -> Judgement:
    """The judge has nothing to say about this trace."""
    return Judgement(
        decision=decision, code=code, feedback=detail, invalid_result=True, invalid_reason=f"{decision.value}: {code}"
    )


def invalid(reason: InvalidReason, detail: str, *, raw_reply: str = "") -> Judgement:
    """The trace could not be judged."""
    return Judgement(
        invalid=reason,
        code=reason.value,
        feedback=detail[:FEEDBACK_CHARS],
        raw_reply=raw_reply[:RAW_REPLY_CHARS],
        invalid_result=True,
        invalid_reason=f"{reason.value}: {detail}",
    )


def failed_call(failure: Failure) -> Judgement:
    """The judgement for a trace whose call has failed in the guard."""
    if isinstance(failure.outcome, InvalidReason):
        return invalid(failure.outcome, failure.detail)
    result = not_applicable(failure.code, failure.detail, decision=failure.outcome)
    return result.but(gone=failure.gone)
