"""Whether a judge's endpoint can be reached and knows its key and model, without buying a verdict."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

import aiohttp

from tracejudge.judging.calls.failures import scrub
from tracejudge.judging.calls.proxy import proxy_for
from tracejudge.judging.specs.spec import JudgeSpec

_TIMEOUT_S: Final = 10.0
_MAX_BYTES: Final = 4_000_000
_AZURE: Final = re.compile(r"\A\w+://[^/]*\.azure\.(?:com|us|cn)[/:]", re.IGNORECASE)
"""Azure lists the models that could be deployed; what is asked for is the name of a deployment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCheck:
    """The result of checking an endpoint. "note": it could not be told without paying for a call."""

    status: Literal["ok", "FAIL", "note"]
    detail: str
    fix: str = ""


async def check_endpoint(spec: JudgeSpec, *, environ: Mapping[str, str] = os.environ) -> EndpointCheck:
    """Asks the endpoint for its list of models, which costs nothing. Raises nothing for what the endpoint does."""
    if spec.api_key_env is not None and not environ.get(spec.api_key_env):
        return EndpointCheck(
            status="FAIL",
            detail=f"the variable {spec.api_key_env} is not set",
            fix=f"export {spec.api_key_env}=... where the consumer runs",
        )
    if spec.base_url is None:
        return EndpointCheck(
            status="note", detail=f"{spec.llm or spec.kind}: reached through its own class, not tested"
        )
    key = environ.get(spec.api_key_env or "", "")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)) as session,
            session.get(
                f"{spec.base_url}/models", headers=headers, proxy=proxy_for(spec.base_url), allow_redirects=False
            ) as response,
        ):
            status, body = response.status, await _read_all(response)
    except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
        return EndpointCheck(
            status="FAIL",
            detail=scrub(f"{spec.base_url}: {type(error).__name__}: {error}", secret=key),
            fix="start the endpoint, correct base_url, or check proxies (HTTPS_PROXY, NO_PROXY)",
        )
    return _read(spec, status, body)


async def _read_all(response: aiohttp.ClientResponse) -> bytes:
    """The body, broken off beyond the limit. One `read` would give no more than what has arrived by then."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _MAX_BYTES:
            break
    return bytes(body)


def _lists(names: Collection[str], model: str) -> bool:
    """True when a list of models has `model`, as its endpoint understands names."""
    meant = {model, f"models/{model}", f"{model}:latest", model.partition(":")[0]}  # Gemini, Ollama, OpenRouter's :free
    return any(name in meant or ("*" in name and fnmatchcase(model, name)) for name in names)  # LiteLLM's wildcards


def _read(spec: JudgeSpec, status: int, body: bytes) -> EndpointCheck:
    if status in (401, 403):
        return EndpointCheck(
            status="FAIL",
            detail=f"{spec.base_url}: refused the key (HTTP {status})",
            fix=f"set a valid key in {spec.api_key_env}"
            if spec.api_key_env
            else "name the key's variable: api_key_env",
        )
    if 300 <= status < 400:
        return EndpointCheck(
            status="FAIL",
            detail=f"{spec.base_url}: HTTP {status}, a redirect, which is not followed",
            fix="set base_url to its target",
        )
    if status >= 500 and status != 501:  # 501: it knows no GET, as a server of completions only may say
        return EndpointCheck(status="FAIL", detail=f"{spec.base_url}: HTTP {status}", fix="provider error: wait")
    try:
        names = {str(model["id"]) for model in json.loads(body)["data"]} if status == 200 else None
    except (ValueError, LookupError, TypeError, RecursionError):
        names = None
    if names is None:
        # Some gateways serve completions only.
        return EndpointCheck(status="note", detail=f"{spec.base_url}: responds, but lists no models (HTTP {status})")
    if not _lists(names, spec.model or ""):
        if _AZURE.search(spec.base_url or ""):
            detail = f"{spec.base_url}: answers; which deployments it has cannot be told without a call"
            return EndpointCheck(status="note", detail=detail)
        known = ", ".join(sorted(names)[:5])
        return EndpointCheck(
            status="FAIL", detail=f"{spec.base_url}: has no model {spec.model!r}", fix=f"choose one of {known} ..."
        )
    return EndpointCheck(status="ok", detail=f"{spec.base_url}: responds and has {spec.model!r}")
