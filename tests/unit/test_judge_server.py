"""The scripted judge, over real HTTP: what it answers, how it fails, and what it counts."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.support.judge_process import JudgeProcess
from tests.support.judge_reply import (
    JudgeRequest,
    Reply,
    context_length_exceeded,
    dropped,
    insufficient_quota,
    prompt_hash,
    server_error,
)
from tests.support.judge_script import (
    Rule,
    always,
    failing_first,
    first_match,
    in_turn,
    noisy_verdict,
    only_models,
    rate_limited_first,
    rate_limited_randomly,
    verdict_by_regex,
    with_latency,
)
from tests.support.judge_server import JudgeServer


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def content(self) -> Any:
        return self.json["choices"][0]["message"]["content"]


@pytest_asyncio.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


async def ask(
    http: aiohttp.ClientSession,
    server: JudgeServer,
    prompt: str,
    *,
    model: str = "judge",
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> Answer:
    body = {"model": model, "messages": [{"role": "user", "content": prompt}], **fields}
    async with http.post(f"{server.base_url}/chat/completions", json=body, headers=headers) as response:
        return Answer(response.status, dict(response.headers), await response.text())


def request_for(prompt: str, *, attempt: int = 1) -> JudgeRequest:
    """What a script sees, without a server."""
    messages = [{"role": "user", "content": prompt}]
    return JudgeRequest(
        model="judge",
        messages=messages,
        prompt=prompt,
        prompt_hash=prompt_hash("judge", messages),
        attempt=attempt,
        stream=False,
        response_format=None,
        headers={},
        body={},
    )


async def test_a_completion_has_the_shape_clients_expect(http: aiohttp.ClientSession) -> None:
    script = always("YES it is", system_fingerprint="fp_1", model_reported="judge-2025", usage=(12, 3))
    with JudgeServer(script) as server:
        answer = await ask(http, server, "Is it?")
    assert answer.status == 200
    assert answer.content == "YES it is"
    assert answer.json["object"] == "chat.completion"
    assert answer.json["model"] == "judge-2025"
    assert answer.json["system_fingerprint"] == "fp_1"
    assert answer.json["choices"][0]["finish_reason"] == "stop"
    assert answer.json["usage"] == {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}


async def test_usage_counts_words_unless_scripted(http: aiohttp.ClientSession) -> None:
    with JudgeServer(always("one two")) as server:
        answer = await ask(http, server, "three words here")
    assert answer.json["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


async def test_a_refusal_has_no_content(http: aiohttp.ClientSession) -> None:
    with JudgeServer(always("", refusal="I cannot help with that.")) as server:
        message = (await ask(http, server, "x")).json["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == (None, "I cannot help with that.")


async def test_a_stream_carries_the_same_text(http: aiohttp.ClientSession) -> None:
    with JudgeServer(always("YES, Zürich  is\nnamed", usage=(5, 4))) as server:
        answer = await ask(http, server, "x", stream=True, stream_options={"include_usage": True})
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in answer.body.splitlines() if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == "YES, Zürich  is\nnamed"
    assert len(deltas) > 4
    assert chunks[-1]["usage"]["total_tokens"] == 9


async def test_the_prompt_is_the_text_of_all_messages(http: aiohttp.ClientSession) -> None:
    messages = [
        {"role": "system", "content": "Judge."},
        {"role": "user", "content": [{"type": "text", "text": "Paris?"}]},
    ]
    with JudgeServer(verdict_by_regex("Judge.*Paris")) as server:
        answer = await ask(http, server, "", messages=messages, response_format={"type": "json_object"})
        [request] = server.requests
    assert answer.content == "YES"
    assert request.prompt == "Judge.\nParis?"
    assert request.response_format == {"type": "json_object"}
    assert request.body["messages"] == messages


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (insufficient_quota(), 429, "insufficient_quota"),
        (context_length_exceeded(), 400, "context_length_exceeded"),
        (server_error(503), 503, None),
        (Reply("teapot", status=418), 418, None),
    ],
)
async def test_errors_have_an_openai_body(
    http: aiohttp.ClientSession, reply: Reply, status: int, code: str | None
) -> None:
    with JudgeServer(lambda request: reply) as server:
        answer = await ask(http, server, "x")
        assert server.stats.statuses == {status: 1}
    assert answer.status == status
    assert answer.json["error"]["code"] == code
    assert answer.json["error"]["message"]


async def test_the_key_is_checked_when_one_is_set(http: aiohttp.ClientSession) -> None:
    with JudgeServer(always("YES"), api_key="sk-right") as server:
        wrong = await ask(http, server, "x", headers={"Authorization": "Bearer sk-wrong"})
        right = await ask(http, server, "x", headers={"Authorization": "Bearer sk-right"})
        assert (wrong.status, wrong.json["error"]["code"]) == (401, "invalid_api_key")
        assert right.status == 200
        assert sum(server.stats.calls_by_prompt.values()) == 1


async def test_models_are_listed_and_unknown_ones_refused(http: aiohttp.ClientSession) -> None:
    with JudgeServer(only_models({"a", "b"}, always("YES")), models=("a", "b")) as server:
        async with http.get(f"{server.base_url}/models") as response:
            listed = await response.json()
        answer = await ask(http, server, "x", model="c")
    assert [model["id"] for model in listed["data"]] == ["a", "b"]
    assert (answer.status, answer.json["error"]["code"]) == (404, "model_not_found")


async def test_malformed_bodies(http: aiohttp.ClientSession) -> None:
    with JudgeServer(always("prose", malformed="not_json")) as server:
        assert (await ask(http, server, "x")).body == "prose"
        server.script = always("YES", malformed="empty")
        assert (await ask(http, server, "x")).body == ""
        server.script = always("YES", malformed="no_choices")
        assert (await ask(http, server, "x")).json["choices"] == []
        server.script = always("YES", malformed="truncated")
        for stream in (False, True):
            with pytest.raises(aiohttp.ClientPayloadError):
                await ask(http, server, "x", stream=stream)


async def test_a_body_that_is_no_request_gets_400(http: aiohttp.ClientSession) -> None:
    with JudgeServer(always("YES")) as server:
        for body in (b"not json", b'{"model": "judge"}', b"[]", b'{"model": "m", "messages": [1]}'):
            async with http.post(f"{server.base_url}/chat/completions", data=body) as response:
                assert response.status == 400


async def test_a_dropped_connection_is_an_error_of_the_client(http: aiohttp.ClientSession) -> None:
    with JudgeServer(failing_first(always("YES"), 1, dropped())) as server:
        with pytest.raises(aiohttp.ClientConnectionError):
            await ask(http, server, "x")
        assert (await ask(http, server, "x")).content == "YES"
        assert (server.stats.dropped, server.stats.statuses) == (1, {200: 1})


async def test_attempts_are_counted_for_each_prompt_and_model(http: aiohttp.ClientSession) -> None:
    with JudgeServer(rate_limited_first(always("YES"), 2, retry_after_s=0.5)) as server:
        first = [await ask(http, server, "a") for _ in range(3)]
        other = await ask(http, server, "b")
        other_model = await ask(http, server, "a", model="second")
        counts = sorted(server.stats.calls_by_prompt.values())
    assert [answer.status for answer in first] == [429, 429, 200]
    assert first[0].headers["Retry-After"] == "0.5"
    assert first[0].json["error"]["code"] == "rate_limit_exceeded"
    assert (other.status, other_model.status) == (429, 429)
    assert counts == [1, 1, 3]


async def test_hanging_calls_answer_when_released(http: aiohttp.ClientSession) -> None:
    with JudgeServer(always("YES", hang=True)) as server:
        calls = [asyncio.create_task(ask(http, server, f"p{number}")) for number in range(3)]
        await asyncio.to_thread(server.wait_for, lambda stats: len(stats.calls_by_prompt) == 3)
        assert not any(call.done() for call in calls)
        server.release()
        assert [answer.content for answer in await asyncio.gather(*calls)] == ["YES"] * 3
        assert server.stats.in_flight_max == 3
        again = asyncio.create_task(ask(http, server, "again"))
        await asyncio.to_thread(server.wait_for, lambda stats: stats.in_flight == 1)
        assert not again.done()
    with pytest.raises(aiohttp.ClientConnectionError):
        await again


async def test_a_client_that_gives_up_is_no_longer_in_flight(http: aiohttp.ClientSession) -> None:
    with JudgeServer(always("YES", hang=True)) as server:
        call = asyncio.create_task(ask(http, server, "x"))
        await asyncio.to_thread(server.wait_for, lambda stats: stats.in_flight == 1)
        call.cancel()
        stats = await asyncio.to_thread(server.wait_for, lambda stats: stats.in_flight == 0)
        assert (stats.abandoned, stats.statuses) == (1, {})


async def test_above_its_capacity_it_answers_429(http: aiohttp.ClientSession) -> None:
    with JudgeServer(always("YES", hang=True), max_concurrent=2, retry_after_s=1) as server:
        calls = [asyncio.create_task(ask(http, server, f"p{number}")) for number in range(2)]
        await asyncio.to_thread(server.wait_for, lambda stats: stats.in_flight == 2)
        refused = await ask(http, server, "p2")
        server.release()
        await asyncio.gather(*calls)
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        assert server.stats.statuses == {429: 1, 200: 2}


async def test_stats_are_served_and_can_be_reset(http: aiohttp.ClientSession) -> None:
    with JudgeServer(always("YES"), keep_requests=2) as server:
        for prompt in ("a", "b", "c"):
            await ask(http, server, prompt)
        async with http.get(f"{server.url}/stats") as response:
            served = await response.json()
        assert (served["calls"], served["statuses"]) == (3, {"200": 3})
        assert [request.prompt for request in server.requests] == ["b", "c"]
        server.reset()
        assert (server.stats.calls, server.requests) == (0, [])


async def test_rules_choose_by_model_prompt_and_attempt(http: aiohttp.ClientSession) -> None:
    script = first_match(
        Rule(server_error(), model="small", attempts=range(1, 2)),
        Rule(Reply("NO"), prompt="wrong"),
        Rule(in_turn(Reply("1"), Reply("2"))),
    )
    with JudgeServer(script) as server:
        assert (await ask(http, server, "wrong", model="small")).status == 500
        assert (await ask(http, server, "wrong", model="small")).content == "NO"
        assert [(await ask(http, server, "right")).content for _ in range(3)] == ["1", "2", "2"]


async def test_an_error_in_the_script_fails_the_test(http: aiohttp.ClientSession) -> None:
    server = JudgeServer(first_match(Rule(Reply("YES"), prompt="foreseen")))
    server.start()
    assert (await ask(http, server, "surprise")).status == 500
    with pytest.raises(LookupError, match="surprise"):
        server.stop()


async def test_many_calls_at_once_are_all_counted(http: aiohttp.ClientSession) -> None:
    with JudgeServer(always("YES")) as server:
        answers = await asyncio.gather(*(ask(http, server, f"p{number}") for number in range(300)))
        stats = server.stats
    assert all(answer.status == 200 for answer in answers)
    assert (stats.calls, stats.statuses, stats.in_flight) == (300, {200: 300}, 0)
    assert len(stats.calls_by_prompt) == 300


def test_a_noisy_judge_errs_at_its_rates_and_always_alike() -> None:
    """Sensitivity 0.9 and specificity 0.7 over 4000 prompts each; 0.02 is more than three standard errors."""
    judge = noisy_verdict(lambda request: "good" in request.prompt, sensitivity=0.9, specificity=0.7, seed=1)
    good = [judge(request_for(f"good {number}")).content for number in range(4000)]
    bad = [judge(request_for(f"bad {number}")).content for number in range(4000)]
    assert good.count("YES") / 4000 == pytest.approx(0.9, abs=0.02)
    assert bad.count("NO") / 4000 == pytest.approx(0.7, abs=0.023)
    assert good == [judge(request_for(f"good {number}", attempt=2)).content for number in range(4000)]


def test_a_noisy_judge_may_differ_between_attempts() -> None:
    judge = noisy_verdict(lambda request: True, sensitivity=0.5, per_attempt=True)
    verdicts = {judge(request_for("same", attempt=attempt)).content for attempt in range(1, 30)}
    assert verdicts == {"YES", "NO"}


def test_latency_is_lognormal_and_belongs_to_the_prompt() -> None:
    script = with_latency(always("YES"), median_s=0.05, sigma=0.4, seed=3)
    delays = [script(request_for(f"p{number}")).delay_s for number in range(4000)]
    assert statistics.median(delays) == pytest.approx(0.05, rel=0.05)
    # For a lognormal, ln of the 84.1 % quantile over the median is sigma.
    assert sorted(delays)[int(0.841345 * 4000)] / statistics.median(delays) == pytest.approx(1.4918, rel=0.06)
    assert script(request_for("p7", attempt=5)).delay_s == delays[7]


def test_random_rate_limits_keep_their_probability_over_attempts() -> None:
    script = rate_limited_randomly(always("YES"), 0.05, seed=2)
    statuses = [script(request_for(f"p{n % 500}", attempt=n // 500 + 1)).status for n in range(5000)]
    assert statuses.count(429) / 5000 == pytest.approx(0.05, abs=0.01)


async def test_it_also_runs_as_a_process(http: aiohttp.ClientSession) -> None:
    options = ("--fail-when", "wrong", "--latency-median-ms", "1", "--sigma", "0.4", "--model", "a")
    with JudgeProcess(*options) as judge:
        body = {"model": "a", "messages": [{"role": "user", "content": "wrong"}]}
        async with http.post(f"{judge.base_url}/chat/completions", json=body) as response:
            answer = await response.json()
        assert answer["choices"][0]["message"]["content"] == "NO"
        assert (await asyncio.to_thread(judge.stats))["statuses"] == {"200": 1}
