"""What an error of a judge call means: try again, this trace can never be judged, or the judge is gone.

Errors of our own client carry their facts; those of other libraries (openai, anthropic, httpx, botocore, ...) are asked
for the same facts by the names these libraries share, so that none of them needs importing.
"""

from __future__ import annotations

import asyncio
import re
import socket
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

from tracejudge.errors import TraceJudgeError
from tracejudge.scores import InvalidReason
from tracejudge_sdk.json_values import scrub_text

DETAIL_CHARS: Final = 300

Meaning = Literal["retry", "invalid", "gone"]

UNREACHABLE: Final = "unreachable"
"""Status of a call that did not even get a connection: no attempt of the trace, and none of the calls a cap counts."""


class CallError(TraceJudgeError):
    """One call to a judge's model failed. `status` is the HTTP status, 0 where there was no answer; `sent` is False
    where not even a connection came about."""

    def __init__(
        self, message: str, *, status: int = 0, code: str = "", retry_after_s: float | None = None, sent: bool = True
    ) -> None:
        super().__init__(message)
        self.sent = sent
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s


class CallTimeout(CallError):
    """No answer within the limit."""


class MalformedReply(CallError):
    """The endpoint answered 200 with something that is not a chat completion."""


class OverBudget(TraceJudgeError):
    """A hard cap is reached: the call was not made. `cap` is the setting's name."""

    def __init__(self, cap: str, message: str) -> None:
        super().__init__(f"{cap}: {message}")
        self.cap = cap


class SpendUnknown(TraceJudgeError):
    """The store refuses to say what was spent: the call was not made, since money comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """How an error has to be handled. `status` is the short stable code stored with the call."""

    meaning: Meaning
    status: str
    reason: InvalidReason = InvalidReason.JUDGE_ERROR
    gone_kind: str = ""
    retry_after_s: float | None = None
    detail: str = ""
    capacity: bool = False  # the endpoint took no more, or too long: fewer calls at once may help


_GONE_CODES: Final = {
    "insufficient_quota": "no_quota",
    "billing_hard_limit_reached": "no_quota",
    "billing_not_active": "no_quota",
    "account_deactivated": "bad_key",
    "invalid_api_key": "bad_key",
    "model_not_found": "unknown_model",
    "deploymentnotfound": "unknown_model",
    # A parameter of the spec that this model does not take fails every trace alike.
    "unsupported_parameter": "bad_settings",
    "unsupported_value": "bad_settings",
    "unknown_parameter": "bad_settings",
    "budget_exceeded": "no_quota",  # LiteLLM, with status 400
    "invalid_model": "unknown_model",  # Mistral, likewise
    "model_decommissioned": "unknown_model",  # Groq, likewise
    "model_not_available": "unknown_model",  # Together, likewise
}
_GONE_WORDS: Final = {
    "bad_key": r"API key not valid|Missing or invalid Authorization header|Incorrect API key provided",  # Gemini, xAI
    "no_quota": r"Your credit balance is too low|Budget has been exceeded|ExceededBudget",  # Anthropic, LiteLLM
    "unknown_model": r"Model Not Exist|(?:\d+: )?(?:\{'error': ['\"])?(?:/[\w/]+: )?Invalid model name passed in"
    r"|[\w./:-]+ is not a valid model ID",  # DeepSeek, LiteLLM, OpenRouter
    "bad_settings": r"Unsupported (?:parameter|value): '\w+'|UnsupportedParamsError",
}
"""How endpoints that answer 400 without a code of their own begin to say that they would refuse every trace alike. Only
the beginning counts: further on a message may repeat a judged text."""

_FRAME: Final = (
    r"(?:HTTP \d+: |\w+: Error code: \d+ - \{'error': \{'message': ['\"])?"
    r"(?:litellm\.(?!Unsupported)\w+: |litellm\.|\w+Error: |\w+Exception - ){0,4}"
)
_GONE_SAID: Final = re.compile(
    _FRAME + "(?:" + "|".join(f"(?P<{kind}>{said})" for kind, said in _GONE_WORDS.items()) + ")"
)
_GONE_STATUSES: Final = {401: "bad_key", 402: "no_quota", 403: "forbidden", 404: "unknown_model", 410: "unknown_model"}
_THROTTLED_CODES: Final = frozenset({"throttlingexception", "toomanyrequestsexception", "rate_limit_exceeded"})
_RETRY_STATUSES: Final = frozenset({408, 409, 425, 429})
_OVERLOADED_STATUSES: Final = frozenset({503, 529})
_FILTERED: Final = re.compile(r"content[_ ]?(filter|management|policy)|moderation|flagged|safety", re.IGNORECASE)
_NAMED_RETRY: Final = re.compile(r"Timeout|Connection|ServiceUnavailable|InternalServer|Overloaded", re.IGNORECASE)
_KEY_LIKE: Final = re.compile(r"\b(?:sk|pk|key|rk)-[A-Za-z0-9_*.-]{6,}|Bearer\s+\S+", re.IGNORECASE)


def gone_code(code: str) -> bool:
    """True for a provider's code or type of error that says that the judge answers nobody."""
    return code.lower() in _GONE_CODES


def diagnose(error: BaseException) -> Diagnosis:
    """Decides what `error` means for the trace and for the judge."""
    detail = describe(error)
    if type(error).__name__ in _NEVER_SENT:
        return Diagnosis(meaning="retry", status=UNREACHABLE, detail=detail)
    if isinstance(error, (CallTimeout, asyncio.TimeoutError, TimeoutError)) or "Timeout" in type(error).__name__:
        return Diagnosis(
            meaning="retry", status="timeout", reason=InvalidReason.JUDGE_TIMEOUT, detail=detail, capacity=True
        )
    status, code, retry_after_s = _facts(error)
    if kind := _GONE_CODES.get(code.lower()):
        return Diagnosis(meaning="gone", status=kind, gone_kind=kind, detail=detail)
    if status in {400, 403, 422} and _FILTERED.search(f"{code} {detail}"):
        return Diagnosis(meaning="invalid", status="filtered", reason=InvalidReason.BAD_REQUEST, detail=detail)
    if 300 <= status < 400:
        return Diagnosis(meaning="gone", status="moved", gone_kind="moved", detail=detail)
    if kind := _GONE_STATUSES.get(status, ""):
        return Diagnosis(meaning="gone", status=kind, gone_kind=kind, detail=detail)
    if status == 429 or code.lower() in _THROTTLED_CODES:
        return Diagnosis(
            meaning="retry",
            status="rate_limited",
            reason=InvalidReason.RATE_LIMITED,
            retry_after_s=retry_after_s,
            detail=detail,
            capacity=True,
        )
    if status in _RETRY_STATUSES or status >= 500:
        return Diagnosis(
            meaning="retry",
            status="server_error",
            retry_after_s=retry_after_s,
            detail=detail,
            capacity=status in _OVERLOADED_STATUSES,
        )
    if status in {400, 422} and (said := _GONE_SAID.match(detail)) and (kind := said.lastgroup or ""):
        return Diagnosis(meaning="gone", status=kind, gone_kind=kind, detail=detail)
    if 400 <= status < 500:
        return Diagnosis(meaning="invalid", status="bad_request", reason=InvalidReason.BAD_REQUEST, detail=detail)
    if isinstance(error, MalformedReply):
        return Diagnosis(meaning="retry", status="malformed", detail=detail)
    if never_sent(error):
        return Diagnosis(meaning="retry", status=UNREACHABLE, detail=detail)
    if isinstance(error, (CallError, ConnectionError)) or _NAMED_RETRY.search(type(error).__name__):
        return Diagnosis(meaning="retry", status="connection", detail=detail)
    # Whatever a judge raises by itself it will most likely raise again on the same trace.
    return Diagnosis(meaning="invalid", status="error", detail=detail)


_NEVER_SENT: Final = frozenset({"ConnectError", "ConnectTimeout", "EndpointConnectionError", "ConnectTimeoutError"})
"""Names that httpx and botocore give to a connection that did not come about."""


def billed_nothing(error: BaseException) -> bool:
    """True where the endpoint answered with an error, or was never reached; any other call may have been billed."""
    if isinstance(error, CallTimeout):
        return False
    if _facts(error)[0] >= 300:
        return True
    return never_sent(error)


def never_sent(error: BaseException) -> bool:
    """True where not even a connection came about."""
    cause: BaseException | None = error
    # Libraries wrap the error of the one below them; the chain is bounded, since it can be made to bite its tail.
    for _ in range(8):
        if cause is None:
            return False
        if isinstance(cause, (ConnectionRefusedError, socket.gaierror)) or type(cause).__name__ in _NEVER_SENT:
            return True
        if isinstance(cause, CallError) and not cause.sent:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def describe(error: BaseException, *, secret: str = "") -> str:
    """One short line about `error`, without anything that looks like a key (servers repeat the one they refuse)."""
    return scrub(f"{type(error).__name__}: {error}" if not isinstance(error, CallError) else str(error), secret=secret)


def scrub(text: str, *, secret: str = "") -> str:
    """`text` on one line, cut, with `secret` and everything that looks like a key replaced."""
    if secret:
        text = text.replace(secret, "***")
    text = scrub_text(" ".join(_KEY_LIKE.sub("***", text).split()))
    return text if len(text) <= DETAIL_CHARS else text[: DETAIL_CHARS - 3] + "..."


def retry_after_s(value: str | None, *, now: datetime) -> float | None:
    """Seconds of a Retry-After header, which is a number of seconds or an HTTP date; None where it is neither."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        until = instant_of(value)
        if until is None:
            return None
        seconds = (until - now).total_seconds()
    return max(0.0, seconds) if seconds == seconds else None


def instant_of(value: str | None) -> datetime | None:
    """The instant of an HTTP date; None where it is none."""
    try:
        instant = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=timezone.utc)


def _facts(error: BaseException) -> tuple[int, str, float | None]:
    """HTTP status, the provider's code and Retry-After, as far as the error holds them."""
    if isinstance(error, CallError):
        return error.status, error.code, error.retry_after_s
    response: Any = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    code = getattr(error, "code", None)
    if isinstance(response, dict):  # botocore
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        code = response.get("Error", {}).get("Code")
    headers: Any = getattr(response, "headers", None)
    after = headers.get("retry-after") if headers is not None and hasattr(headers, "get") else None
    return (
        status if isinstance(status, int) else 0,
        code if isinstance(code, str) else "",
        retry_after_s(after if isinstance(after, str) else None, now=datetime.now(timezone.utc)),
    )
