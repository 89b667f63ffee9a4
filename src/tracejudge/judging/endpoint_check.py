"""Whether a judge's model answers at all, by one real call on a known case."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from tracejudge.errors import SettingsError
from tracejudge.judging.client import Message
from tracejudge.judging.failures import CallTimeout, diagnose
from tracejudge.judging.meter import within
from tracejudge.judging.prompts import read_prompt
from tracejudge.judging.prompts.fence import fence, new_code
from tracejudge.judging.spec import JudgeSpec
from tracejudge.judging.verdict import Unreadable, parse_verdict


class EndpointCheck(NamedTuple):
    """What came of the call, and what to do about it."""

    status: Literal["ok", "FAIL"]
    detail: str
    fix: str = ""


_FIXES: Final[Mapping[str, str]] = {
    "bad_key": "put a valid key into the environment variable that api_key_env names",
    "forbidden": "the key is not allowed this model: use another key or model",
    "no_quota": "add credit at the provider, or name another model",
    "unknown_model": "mend model and base_url (base_url usually ends in /v1)",
    "bad_settings": "remove the parameter named, or set temperature and max_tokens as this model wants them",
    "timeout": "raise timeout_s, or use a faster model",
    "connection": "check base_url, proxy and firewall",
    "rate_limited": "lower concurrency, or ask the provider for a higher limit",
}


async def check_endpoint(spec: JudgeSpec, *, environ: Mapping[str, str] = os.environ) -> EndpointCheck:
    """Asks the model about one supported statement. Costs one call, which no budget counts; raises nothing."""
    from tracejudge.judging.registry import make_completer

    try:
        completer = make_completer(spec, environ=environ)
    except SettingsError as error:
        return EndpointCheck("FAIL", "; ".join(error.faults), "mend the judge's settings")
    code = new_code([])
    texts = [
        fence("QUESTION", "When does the shop open?", code),
        fence("PASSAGE 1", "The shop opens at nine.", code),
        fence("RESPONSE", "It opens at nine.", code),
    ]
    messages = [
        Message("system", read_prompt("system").replace("{code}", code)),
        Message("user", "Task: is the RESPONSE supported by the PASSAGES?\n\n" + "\n\n".join(texts)),
    ]
    try:
        reply = await within(completer.complete(messages), spec.timeout_s)
    except Exception as error:  # noqa: BLE001 - whatever a client raises is the finding
        found = diagnose(error)
        status = "timeout" if isinstance(error, CallTimeout) else found.status
        return EndpointCheck("FAIL", found.detail, _FIXES.get(status, "see the endpoint's own log"))
    finally:
        await completer.close()
    verdict = parse_verdict(reply.text)
    if isinstance(verdict, Unreadable):
        return EndpointCheck(
            "FAIL",
            f"answers, but not in a shape that can be read ({verdict.detail})",
            "use a model that follows instructions; see the reply with a raised max_tokens",
        )
    answer = "YES" if verdict.yes else "NO"
    return EndpointCheck("ok", f"{reply.model or spec.model_name} answers ({answer} on a supported statement)")
