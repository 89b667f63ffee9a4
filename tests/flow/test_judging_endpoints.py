"""What OpenAI, Azure, Gemini, OpenRouter, LiteLLM and others really answer, and what a judge makes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.panels import Sleeps, make_tasks
from tracejudge.judging import JudgeSpec, NothingSpent, Panel
from tracejudge.judging.calls.endpoint_check import check_endpoint
from tracejudge.judging.tasks import PanelResult
from tracejudge.scores import Outcome
from tracejudge.testing import ManualClock

VERDICT = '{"unsupported": [], "verdict": "YES"}'

Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]]


def said(content: Any = VERDICT, *, usage: Any = None, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
    return {"model": "judge", "choices": [choice], "usage": usage}


def failed(message: Any, *, code: Any = None, kind: Any = None, param: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


class Endpoint:
    """Answers each body by `answer`, and keeps the bodies."""

    def __init__(self, answer: Callable[[dict[str, Any]], Answer]) -> None:
        self._answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.sleeps = Sleeps()

    async def judge(self, traces: int = 1, **fields: Any) -> PanelResult:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._completions)
        async with TestServer(app) as server:
            values = {"name": "faithful", "kind": "faithfulness", "base_url": str(server.make_url("/v1"))}
            prices = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}
            spec = JudgeSpec.model_validate({**values, **prices, "model": "judge", "max_calls_per_h": 99, **fields})
            panel = Panel([spec], clock=ManualClock(), spend=NothingSpent(), environ={}, sleep=self.sleeps)
            try:
                return await panel.evaluate(make_tasks(range(traces)))
            finally:
                await panel.close()

    async def _completions(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        status, answer, *headers = self._answer(body)
        return web.Response(
            status=status,
            text=json.dumps(answer),
            content_type="application/json",
            headers=headers[0] if headers else {},
        )


def in_turn(*answers: Answer) -> Endpoint:
    left = list(answers)
    return Endpoint(lambda _: left.pop(0) if len(left) > 1 else left[0])


@pytest.mark.parametrize(
    ("status", "answer", "kind"),
    [
        (
            400,
            failed("Budget has been exceeded! Current cost: 2, Max budget: 1", code="400", kind="budget_exceeded"),
            "no_quota",
        ),
        (
            429,
            failed("LiteLLM User: me, exceeded budget for model=judge", code="429", kind="budget_exceeded"),
            "no_quota",
        ),
        (
            400,
            failed("litellm.BadRequestError: OpenAIException - Budget has been exceeded! Team=x", code="400"),
            "no_quota",
        ),
        (
            429,
            failed("litellm.RateLimitError: You exceeded your current quota", code="429", kind="insufficient_quota"),
            "no_quota",
        ),
        (
            400,
            failed({"error": "/chat/completions: Invalid model name passed in model=judge."}, code="400"),
            "unknown_model",
        ),
        (400, failed("400: {'error': 'Invalid model name passed in model=judge'}", code=400), "unknown_model"),
        (400, failed("invalid model ID", kind="invalid_request_error", param="model"), "unknown_model"),
        (400, failed("The model `judge` has been decommissioned", code="model_decommissioned"), "unknown_model"),
        (400, failed("Model Not Exist", code="invalid_request_error"), "unknown_model"),
        (
            400,
            {"object": "error", "message": "Invalid model: judge", "type": "invalid_model", "code": "1500"},
            "unknown_model",
        ),
        (400, [failed("API key not valid. Please pass a valid API key.", code=400)], "bad_key"),
        (
            400,
            {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***1"},
            "bad_key",
        ),
        (400, failed("Your credit balance is too low to access the API.", kind="invalid_request_error"), "no_quota"),
        (
            400,
            failed("litellm.UnsupportedParamsError: judge does not support parameters: ['temperature']", code="400"),
            "bad_settings",
        ),
        (200, failed("Insufficient credits", code=402), "no_quota"),
    ],
)
async def test_what_would_refuse_every_trace_alike_makes_no_trace_invalid(status: int, answer: Any, kind: str) -> None:
    result = await in_turn((status, answer)).judge(traces=3)
    assert not result.scores
    assert [gone.kind for gone in result.gone[:1]] == [kind]


async def test_a_firewall_that_refuses_one_text_stops_the_judge_for_no_other() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        return (403, "<html>Request blocked</html>") if "plan 3?" in str(body) else (200, said())

    result = await Endpoint(answer).judge(traces=6, concurrency=1)
    outcomes = [score.outcome for score in result.scores]
    assert (outcomes.count(Outcome.PASSED), outcomes.count(Outcome.INVALID), len(result.ledger)) == (5, 1, 0)
    assert [score.reason for score in result.scores if score.outcome is Outcome.INVALID] == ["bad_request"]


async def test_a_key_that_is_no_longer_allowed_is_found_out_by_one_more_call() -> None:
    endpoint = in_turn((200, said()), (403, failed("not allowed")))
    result = await endpoint.judge(traces=4, concurrency=1)
    assert [gone.kind for gone in result.gone] == ["forbidden"]
    assert (len(result.scores), len(result.ledger), len(endpoint.bodies)) == (1, 3, 3)


async def test_what_a_message_repeats_of_a_trace_says_nothing_about_the_judge() -> None:
    answer = failed("Invalid content: 'API key not valid. Budget has been exceeded!'", code="invalid_value")
    result = await in_turn((400, answer)).judge()
    assert [(score.outcome, score.reason) for score in result.scores] == [(Outcome.INVALID, "bad_request")]
    assert not result.gone


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (failed("Provider returned error", code=502), "server_error"),
        (failed("Rate limited upstream", code=429), "rate_limited"),
        ({"choices": [{"message": {"content": "YES"}, "finish_reason": "error", "error": {"code": 502}}]}, "malformed"),
    ],
)
async def test_an_error_inside_a_200_is_an_error(first: Any, status: str) -> None:
    result = await in_turn((200, first), (200, said())).judge()
    assert [call.status for call in result.calls] == [status, "ok"]
    assert [score.outcome for score in result.scores] == [Outcome.PASSED]


async def test_a_reasoning_model_gets_its_bound_under_the_name_it_takes() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        if "response_format" in body:
            return 400, failed("Invalid parameter: 'response_format' of type 'json_schema' is not supported")
        if "max_tokens" in body:
            message = (
                "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead."
            )
            return 400, failed(message, code="unsupported_parameter", param="max_tokens")
        return 200, said()

    endpoint = Endpoint(answer)
    result = await endpoint.judge(traces=2, max_tokens=77, concurrency=1)
    assert [score.outcome for score in result.scores] == [Outcome.PASSED] * 2
    assert len(endpoint.bodies) == 4, "what it refuses is found out once"
    assert endpoint.bodies[-1]["max_completion_tokens"] == 77
    assert "max_tokens" not in endpoint.bodies[-1]


async def test_a_bound_of_ones_own_takes_the_place_of_max_tokens() -> None:
    endpoint = in_turn((200, said()))
    await endpoint.judge(extra_body={"max_completion_tokens": 2000})
    assert endpoint.bodies[0]["max_completion_tokens"] == 2000
    assert "max_tokens" not in endpoint.bodies[0]


async def test_a_text_that_is_too_long_changes_no_field() -> None:
    message = (
        "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context length is 4096 tokens."
    )
    endpoint = in_turn((400, failed(message, code=400, param="max_tokens")))
    result = await endpoint.judge()
    assert [score.reason for score in result.scores] == ["bad_request"]
    assert len(endpoint.bodies) == 1


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 20, "completion_tokens": 12}, (20, 12)),
        ({"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 623}, (20, 603)),
        ({"prompt_tokens": 21, "completion_tokens": 0, "total_tokens": 81}, (21, 60)),
    ],
)
async def test_reasoning_that_only_the_total_counts_is_paid_for(usage: Any, tokens: tuple[int, int]) -> None:
    (call,) = (await in_turn((200, said(usage=usage))).judge()).calls
    assert (call.input_tokens, call.output_tokens) == tokens


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": None}])
async def test_a_call_whose_usage_is_not_told_is_estimated_and_never_free(usage: Any) -> None:
    (call,) = (await in_turn((200, said(usage=usage, reasoning_content="x" * 3600))).judge()).calls
    assert call.input_tokens > 300
    assert call.output_tokens > 1000
    assert call.cost_usd == pytest.approx((call.input_tokens + call.output_tokens) / 1e6)


async def test_reasoning_given_as_a_part_of_the_content_is_no_verdict() -> None:
    parts = [{"type": "reasoning", "text": "NO."}, {"type": "thinking", "thinking": [{"text": "NO"}]}]
    result = await in_turn(
        (200, said([*parts, {"type": "text", "text": "YES"}, {"type": "text", "text": None}]))
    ).judge()
    assert [score.outcome for score in result.scores] == [Outcome.PASSED]


@pytest.mark.parametrize(
    ("listed", "model", "status"),
    [
        ("models/gemini-2.0-flash", "gemini-2.0-flash", "ok"),
        ("llama3.1:latest", "llama3.1", "ok"),
        ("llama3.1:8b", "llama3.1", "FAIL"),
        ("meta/llama-3", "meta/llama-3:free", "ok"),
        ("openai/*", "openai/gpt-4o", "ok"),
        ("openai/*", "azure/gpt-4o", "FAIL"),
    ],
)
async def test_a_model_is_known_by_the_name_under_which_its_endpoint_takes_it(
    listed: str, model: str, status: str
) -> None:
    async def models(_request: web.Request) -> web.StreamResponse:
        body = json.dumps({"data": [{"id": listed, "about": "x" * 300_000}, {"id": "other"}]})
        response = web.StreamResponse()
        await response.prepare(_request)
        for at in range(0, len(body), 50_000):  # OpenRouter's list comes in many pieces
            await response.write(body[at : at + 50_000].encode())
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_get("/v1/models", models)
    async with TestServer(app) as server:
        spec = JudgeSpec(name="f", kind="faithfulness", base_url=str(server.make_url("/v1")), model=model)
        assert (await check_endpoint(spec, environ={})).status == status


async def test_an_http_date_of_retry_after_is_read_by_the_endpoints_own_clock() -> None:
    headers = {"Date": "Wed, 21 Oct 2099 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2099 07:28:09 GMT"}
    endpoint = in_turn((429, failed("slow down"), headers), (200, said()))
    result = await endpoint.judge()
    assert [score.outcome for score in result.scores] == [Outcome.PASSED]
    assert any(9.0 <= slept < 10.0 for slept in endpoint.sleeps.waits_s)
