"""What the gateway answers: a refusal of the whole request, or one answer per line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracejudge_consumer.contract import Fault

LineStatus = Literal["accepted", "refused", "unavailable"]

MAX_PAUSE_S: Final = 60
FULLY_TOLD: Final = 100
"""Refused lines of one answer whose faults are told in full; of the others reason and field."""


class Refusal(Exception):
    """The request is answered with `status` and nothing of it was taken."""

    def __init__(
        self,
        status: int,
        *,
        reason: str,
        field: str = "",
        value: str = "",
        limit: str = "",
        remedy: str,
        headers: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.fault = Fault(reason=reason, field=field, value=value, limit=limit, remedy=remedy)
        self.headers = dict(headers or {})
        if retry_after_s is not None:
            self.headers["Retry-After"] = retry_after(retry_after_s)

    def body(self) -> dict[str, Any]:
        return {"error": self.fault}


@dataclass(frozen=True, slots=True, kw_only=True)
class LineAnswer:
    """What became of one line. `unavailable`: not confirmed, so send it again; arriving twice does no harm."""

    line: int  # from 1; in a JSON array the element's place
    status: LineStatus
    trace_id: str | None = None
    faults: tuple[Fault, ...] = ()

    def as_dict(self, *, brief: bool = False) -> dict[str, Any]:
        """The answer as JSON values; `brief`: only the first fault's reason and field."""
        found: dict[str, Any] = {"line": self.line, "status": self.status}
        if self.trace_id is not None:
            found["trace_id"] = self.trace_id
        if self.faults:
            first = self.faults[0]
            found["faults"] = [{"reason": first.reason, "field": first.field}] if brief else self.faults
        return found


def status_of(answers: list[LineAnswer]) -> int:
    """200: each line has its final answer; 422: each was refused; 503: some are to be sent again."""
    statuses = {answer.status for answer in answers}
    if "unavailable" in statuses:
        return 503
    return 422 if statuses == {"refused"} else 200


def summary(answers: list[LineAnswer]) -> dict[str, Any]:
    """The body of the answer to a request whose lines were looked at."""
    counts = {status: sum(one.status == status for one in answers) for status in ("accepted", "refused", "unavailable")}
    lines, told = [], 0
    for one in answers:
        lines.append(one.as_dict(brief=told >= FULLY_TOLD))
        told += one.status == "refused"
    return {**counts, "lines": lines}


def retry_after(seconds: float) -> str:
    """The value of the header: whole seconds, at least 1."""
    return str(max(1, min(MAX_PAUSE_S, round(seconds + 0.5))))


def method_not_allowed(allowed: str) -> Refusal:
    """The refusal of another method than `allowed`."""
    return Refusal(405, reason="method", limit=allowed, remedy=f"use {allowed}", headers={"Allow": allowed})


def queue_away(retry_after_s: float) -> Refusal:
    """The refusal of a whole request while nothing can be taken."""
    return Refusal(
        503,
        reason="queue_away",
        value="the queue is not accepting records",
        limit="a queue that answers",
        remedy="send it again after the time in Retry-After",
        retry_after_s=retry_after_s,
    )


def internal_error() -> Refusal:
    """The answer when the gateway itself made a mistake: nothing is known of the lines."""
    return Refusal(
        500,
        reason="internal_error",
        limit="no error in the gateway",
        remedy="send it again, and check the gateway's log",
    )
