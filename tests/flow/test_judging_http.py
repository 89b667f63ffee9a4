"""A judge's model over real HTTP: what the client sends, what it makes of every kind of answer, what it never says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.judge_reply import (
    Reply,
    Script,
    context_length_exceeded,
    insufficient_quota,
    model_not_found,
    server_error,
)
from tests.support.judge_script import always, failing_first, in_turn, rate_limited_first, verdict_by_regex
from tests.support.judge_server import JudgeServer
from tests.support.panels import Sleeps, make_task, make_tasks
from tracejudge.judging import JudgeSpec, NothingSpent, Panel
from tracejudge.judging.calls.circuit import FIRST_PAUSE_DOWN_S
from tracejudge.judging.calls.endpoint_check import check_endpoint
from tracejudge.scores import Decision, Outcome
from tracejudge.testing import ManualClock, make_trace

KEY = "sk-very-secret-0123456789"
VERDICT = '{"unsupported": [], "verdict": "YES"}'


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(always(VERDICT), api_key=KEY) as running:
        yield running


def spec(server: JudgeServer, **fields: Any) -> JudgeSpec:
    values = {"name": "faithful", "kind": "faithfulness", "base_url": server.base_url, "model": "judge"}
    return JudgeSpec.model_validate({**values, "api_key_env": "JUDGE_KEY", "max_calls_per_h": 10_000, **fields})


def panel_of(
    server: JudgeServer, sleep: Sleeps | None = None, clock: ManualClock | None = None, **fields: Any
) -> Panel:
    return Panel(
        [spec(server, **fields)],
        clock=clock or ManualClock(),
        spend=NothingSpent(),
        environ={"JUDGE_KEY": KEY},
        sleep=sleep or Sleeps(),
    )


async def test_the_request_is_an_openai_chat_completion(server: JudgeServer) -> None:
    panel = panel_of(server, max_tokens=99, temperature=0.25, extra_body={"seed": 7})
    await panel.evaluate(make_tasks([0]))
    await panel.close()
    (request,) = server.requests
    body = dict(request.body)
    assert body.pop("response_format")["json_schema"]["strict"] is True
    assert [message["role"] for message in body.pop("messages")] == ["system", "user"]
    assert body == {"model": "judge", "max_tokens": 99, "temperature": 0.25, "seed": 7}
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"


async def test_the_environment_names_the_proxy_and_the_hosts_that_need_none(
    server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.base_url.removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "")
    through = panel_of(server, base_url="http://judge.invalid/v1")
    (score,) = (await through.evaluate(make_tasks([0]))).scores
    await through.close()
    assert score.outcome is Outcome.PASSED
    monkeypatch.setenv("no_proxy", "judge.invalid")
    direct = panel_of(server, base_url="http://judge.invalid/v1")
    result = await direct.evaluate(make_tasks([1]))
    await direct.close()
    assert result.scores == ()
    assert len(server.requests) == 1


async def test_settings_that_are_none_are_not_sent(server: JudgeServer) -> None:
    panel = panel_of(server, max_tokens=None, temperature=None, structured_output=False)
    await panel.evaluate(make_tasks([0]))
    await panel.close()
    assert set(server.requests[0].body) == {"model", "messages"}


async def test_what_the_endpoint_reports_is_kept_with_score_and_call(server: JudgeServer) -> None:
    server.script = always(VERDICT, usage=(321, 12), model_reported="judge-2026-01", system_fingerprint="fp_1")
    panel = panel_of(server, usd_per_million_input_tokens=2.0, usd_per_million_output_tokens=10.0)
    result = await panel.evaluate(make_tasks([0]))
    await panel.close()
    (score,), (call,) = result.scores, result.calls
    assert (score.model_reported, score.fingerprint) == ("judge-2026-01", "fp_1")
    assert (call.input_tokens, call.output_tokens, call.model_reported) == (321, 12, "judge-2026-01")
    assert call.cost_usd == pytest.approx((321 * 2 + 12 * 10) / 1e6)
    assert score.usage.cost_usd == call.cost_usd


async def test_verdicts_go_to_the_traces_they_are_about(server: JudgeServer) -> None:
    server.script = verdict_by_regex(r"plan [0-4]\?")
    panel = panel_of(server)
    result = await panel.evaluate(make_tasks(range(10)))
    await panel.close()
    assert [score.outcome is Outcome.PASSED for score in result.scores] == [True] * 5 + [False] * 5


async def test_b11_429s_are_waited_out_as_the_server_asks(server: JudgeServer) -> None:
    server.script = rate_limited_first(always(VERDICT), 2, retry_after_s=3)
    sleeps = Sleeps()
    panel = panel_of(server, sleeps)
    result = await panel.evaluate(make_tasks([0]))
    await panel.close()
    assert [call.status for call in result.calls] == ["rate_limited", "rate_limited", "ok"]
    assert len(sleeps.waits_s) == 2
    assert min(sleeps.waits_s) >= 3.0


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (failing_first(always(VERDICT), 1, server_error(503)), "server_error"),
        (in_turn(Reply(drop=True), Reply(VERDICT)), "connection"),
        (in_turn(Reply(VERDICT, malformed="not_json"), Reply(VERDICT)), "malformed"),
        (in_turn(Reply(VERDICT, malformed="no_choices"), Reply(VERDICT)), "malformed"),
        (in_turn(Reply(VERDICT, malformed="empty"), Reply(VERDICT)), "malformed"),
        (in_turn(Reply(VERDICT, malformed="truncated"), Reply(VERDICT)), "connection"),
        (in_turn(Reply(hang=True), Reply(VERDICT)), "timeout"),
    ],
)
async def test_whatever_passes_is_tried_again_and_each_call_has_its_row(
    server: JudgeServer, script: Script, status: str
) -> None:
    server.script = script
    panel = panel_of(server, timeout_s=0.5 if status == "timeout" else 30.0)
    result = await panel.evaluate(make_tasks([0]))
    await panel.close()
    assert [call.status for call in result.calls] == [status, "ok"]
    assert [score.outcome for score in result.scores] == [Outcome.PASSED]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("NO. It only covers yesterday."), ""),
        (Reply("Perhaps."), "unparsable"),
        (Reply(""), "empty_reply"),
        (Reply("", refusal="I can't help with that."), "refused"),
        (Reply("half a", finish_reason="content_filter"), "refused"),
        (Reply('{"unsupported": ["a', finish_reason="length"), "unparsable"),
        (context_length_exceeded(), "bad_request"),
    ],
)
async def test_replies_that_are_no_verdict_are_invalid_after_one_call(
    server: JudgeServer, reply: Reply, reason: str
) -> None:
    server.script = in_turn(reply)
    panel = panel_of(server)
    result = await panel.evaluate(make_tasks([0]))
    await panel.close()
    (score,) = result.scores
    assert (score.outcome, score.reason) == (Outcome.INVALID if reason else Outcome.FAILED, reason)
    assert len(result.calls) == 1
    if reason not in {"empty_reply", "bad_request"}:
        assert score.raw_reply


@pytest.mark.parametrize(
    ("reply", "kind"), [(insufficient_quota(), "no_quota"), (model_not_found("judge"), "unknown_model")]
)
async def test_b11_a_gone_judge_costs_at_most_five_calls(server: JudgeServer, reply: Reply, kind: str) -> None:
    server.script = in_turn(reply)
    panel = panel_of(server, concurrency=50)
    result = await panel.evaluate(make_tasks(range(100)))
    await panel.close()
    assert server.stats.calls <= 5
    assert (len(result.scores), len(result.ledger)) == (0, 100)
    assert [gone.kind for gone in result.gone] == [kind]


async def test_a_wrong_key_is_found_out_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    def echoes_the_key(request: Any) -> Reply:
        sent = request.headers["authorization"].removeprefix("Bearer ")
        return Reply(status=401, error={"message": f"Incorrect API key provided: {sent}", "code": "invalid_api_key"})

    with caplog.at_level(logging.DEBUG), JudgeServer(echoes_the_key) as server:
        panel = panel_of(server)
        result = await panel.evaluate(make_tasks(range(20)))
        await panel.close()
    assert [gone.kind for gone in result.gone] == ["bad_key"]
    assert KEY not in f"{result!r} {[str(gone) for gone in result.gone]} {caplog.text} {panel!r}"


def test_b13_one_panel_serves_one_event_loop_after_the_other_over_http(server: JudgeServer) -> None:
    panel = panel_of(server, concurrency=2)
    for _ in range(3):
        result = asyncio.run(panel.evaluate(make_tasks(range(6))))
        assert [score.outcome for score in result.scores] == [Outcome.PASSED] * 6
    asyncio.run(panel.close())
    assert server.stats.calls == 18


async def test_no_more_calls_are_open_than_the_spec_allows() -> None:
    with JudgeServer(always(VERDICT, delay_s=0.01), max_concurrent=4) as server:
        panel = panel_of(server, concurrency=4, api_key_env=None)
        result = await panel.evaluate(make_tasks(range(60)))
        await panel.close()
        assert {score.outcome for score in result.scores} == {Outcome.PASSED}
        assert [call.status for call in result.calls] == ["ok"] * 60


async def test_traces_wait_for_an_endpoint_that_is_not_there_and_are_scored_when_it_is_back() -> None:
    with JudgeServer(always(VERDICT)) as server:
        clock = ManualClock()
        panel = panel_of(server, clock=clock, api_key_env=None, max_attempts=2, max_calls_per_h=3)
        port = int(server.base_url.split(":")[2].split("/")[0])
    result = await panel.evaluate(make_tasks(range(3)))
    assert result.scores == ()
    assert {(row.decision, row.reason) for row in result.ledger} == {(Decision.UNDECIDED, "judge_down_unreachable")}
    assert {call.status for call in result.calls} == {"unreachable"}
    assert panel.availability()["faithful"].state == "down"
    with JudgeServer(always(VERDICT), port=port):
        clock.advance(FIRST_PAUSE_DOWN_S)
        # Refused connections were none of the three calls that this hour has.
        assert len((await panel.evaluate(make_tasks(range(3)))).scores) == 3
        assert panel.availability()["faithful"].state == "ok"
        await panel.close()


@pytest.mark.parametrize("reply", [Reply(drop=True), Reply(VERDICT, malformed="truncated")])
async def test_a_reply_that_breaks_off_is_charged_and_a_connection_refused_is_not(reply: Reply) -> None:
    with JudgeServer(in_turn(reply), api_key=KEY) as server:
        panel = panel_of(server, usd_per_million_input_tokens=1.0, usd_per_million_output_tokens=1.0, max_attempts=1)
        broken = (await panel.evaluate(make_tasks([0]))).calls
        await panel.close()
    refused = (await panel.evaluate(make_tasks([1]))).calls
    await panel.close()
    assert [bool(call.cost_usd) for call in broken] == [True]
    assert {call.cost_usd for call in refused} == {0.0}


async def test_odd_unicode_arrives_whole(server: JudgeServer) -> None:
    odd = "Zero\u0000width \u200b \u202eoverride 👩‍👩‍👧 ﷽ \uffff"
    panel = panel_of(server)
    await panel.evaluate([make_task(make_trace(0, response=odd))])
    await panel.close()
    assert odd in server.requests[0].prompt


@pytest.mark.parametrize("class_path", ["llama_index.core.llms:MockLLM"])
async def test_any_llama_index_llm_can_be_the_model(class_path: str) -> None:
    """MockLLM answers without a verdict: invalid, with the reply kept."""
    by_path = JudgeSpec.model_validate(
        {"name": "faithful", "kind": "faithfulness", "llm": class_path, "max_calls_per_h": 10}
    )
    panel = Panel([by_path], clock=ManualClock(), spend=NothingSpent(), environ={})
    result = await panel.evaluate(make_tasks(range(3)))
    await panel.close()
    assert [score.reason for score in result.scores] == ["unparsable"] * 3
    assert all(score.raw_reply for score in result.scores)
    assert [call.status for call in result.calls] == ["ok"] * 3


@pytest.mark.parametrize(("status", "found"), [(404, "note"), (501, "note"), (503, "FAIL")])
async def test_a_server_of_completions_only_is_no_fault_and_one_that_is_down_is(status: int, found: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status)

    app = web.Application()
    app.router.add_get("/v1/models", answer)
    async with TestServer(app) as running:
        judge = JudgeSpec.model_validate(
            {"name": "f", "kind": "faithfulness", "base_url": str(running.make_url("/v1")), "model": "m",
             "max_calls_per_h": 1}
        )  # fmt: skip
        assert (await check_endpoint(judge, environ={})).status == found


async def test_checking_an_endpoint_says_what_is_wrong_and_what_to_do(server: JudgeServer) -> None:
    good = spec(server)
    found = await check_endpoint(good, environ={"JUDGE_KEY": KEY})
    assert found.status == "ok"
    wrong_key = await check_endpoint(good, environ={"JUDGE_KEY": "sk-wrong-0000000000"})
    assert wrong_key.status == "FAIL"
    assert "JUDGE_KEY" in wrong_key.fix
    no_key = await check_endpoint(good, environ={})
    assert (no_key.status, "JUDGE_KEY" in no_key.detail) == ("FAIL", True)


async def test_a_redirect_takes_the_traces_nowhere() -> None:
    """Neither to another server, nor does what stands at an address of our own network come back as an error."""
    reached: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        reached.append(await request.text())
        return web.json_response({"secret": "of the network"})

    other = web.Application()
    other.router.add_route("*", "/{path:.*}", elsewhere)
    async with TestServer(other) as target:

        async def redirect(request: web.Request) -> web.Response:
            return web.Response(
                status=int(request.match_info["status"]), headers={"Location": str(target.make_url("/"))}
            )

        app = web.Application()
        app.router.add_route("*", "/{status}/{path:.*}", redirect)
        async with TestServer(app) as running:
            for status in (302, 307):
                judge = JudgeSpec.model_validate(
                    {"name": "faithful", "kind": "faithfulness", "base_url": str(running.make_url(f"/{status}")),
                     "model": "m", "max_calls_per_h": 10}
                )  # fmt: skip
                panel = Panel([judge], clock=ManualClock(), spend=NothingSpent(), environ={})
                result = await panel.evaluate(make_tasks([0]))
                await panel.close()
                assert result.scores == ()
                assert [gone.kind for gone in result.gone] == ["moved"]
                assert "set base_url" in str(result.gone[0])
                assert (await check_endpoint(judge, environ={})).status == "FAIL"
    assert reached == []


@pytest.mark.parametrize(
    "reply",
    [
        Reply('{"unsupported": ["half \ud83d of one"], "verdict": "NO"}', model_reported="m\udfff" + "x" * 5_000),
        Reply(status=400, error={"message": "no \ud83d", "code": "c"}),
    ],
)
async def test_half_a_character_in_an_answer_is_kept_in_no_row(server: JudgeServer, reply: Reply) -> None:
    """A file of results takes none: one such reply ended `tracejudge score` and lost what was judged after it."""
    server.script = in_turn(reply)
    panel = panel_of(server)
    (score,) = (await panel.evaluate(make_tasks([0]))).scores
    await panel.close()
    for text in (score.feedback, score.raw_reply, score.model_reported, score.reason):
        text.encode()
    assert len(score.model_reported) <= 200


async def test_a_count_of_tokens_that_cannot_be_is_not_believed(server: JudgeServer) -> None:
    server.script = always(VERDICT, usage=(10**300, 2**60))
    panel = panel_of(server, usd_per_million_input_tokens=1.0, usd_per_million_output_tokens=1.0)
    (score,) = (await panel.evaluate(make_tasks([0]))).scores
    await panel.close()
    assert 0 < score.usage.input_tokens < 10_000
    assert score.usage.cost_usd is not None
    assert score.usage.cost_usd < 0.1


@pytest.mark.parametrize("body", ["[" * 500_000, '{"data": [{"id": "\\ud800"}]}', '{"data": {"id": 1}}', "9" * 100_000])
async def test_whatever_an_endpoint_lists_checking_it_raises_nothing(body: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/v1/models", answer)
    async with TestServer(app) as running:
        judge = JudgeSpec.model_validate(
            {"name": "f", "kind": "faithfulness", "base_url": str(running.make_url("/v1")), "model": "m",
             "max_calls_per_h": 1}
        )  # fmt: skip
        (await check_endpoint(judge, environ={})).detail.encode()
