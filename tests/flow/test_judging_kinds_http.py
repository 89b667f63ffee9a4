"""Every judge by a model over real HTTP: the form of reply asked for, endpoints without such a form, long texts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.judge_reply import JudgeRequest, Reply, error_reply
from tests.support.judge_script import always
from tests.support.judge_server import JudgeServer
from tests.support.kinds import kind_spec
from tests.support.panels import Sleeps, make_task
from tracejudge.judging import JudgeSpec, NothingSpent, Panel
from tracejudge.judging.specs.kinds import BUILT_IN
from tracejudge.scores import Outcome
from tracejudge.testing import ManualClock, make_trace

ASKING = [name for name, kind in BUILT_IN.items() if kind.asks_model]
PASSING = {
    "unsupported": '{"unsupported": [], "verdict": "YES"}',
    "reason": '{"reason": "It is so.", "verdict": "YES"}',
    "broken": '{"broken": [], "verdict": "YES"}',
    "score": '{"reason": "As the reference.", "score": 5}',
    "better": '{"reason": "Both say it.", "better": "TIE"}',
}


def by_schema(request: JudgeRequest) -> Reply:
    """The reply that the schema of the request asks for."""
    form = request.response_format
    assert form is not None
    return Reply(PASSING[form["json_schema"]["name"]], system_fingerprint="fp_1")


def panel_of(spec: JudgeSpec) -> Panel:
    return Panel([spec], clock=ManualClock(), spend=NothingSpent(), environ={}, sleep=Sleeps())


async def judged(server: JudgeServer, kind: str, numbers: range = range(1), **fields: Any) -> list[Any]:
    spec = kind_spec(kind, base_url=server.base_url, **fields)
    panel = panel_of(spec)
    tasks = [make_task(make_trace(n, reference=f"Ten, on plan {n}."), spec.name) for n in numbers]
    result = await panel.evaluate(tasks)
    await panel.close()
    assert not result.ledger
    return list(result.scores)


@pytest.mark.parametrize("kind", ASKING)
async def test_the_reply_is_asked_for_by_the_schema_of_its_kind(kind: str) -> None:
    with JudgeServer(by_schema) as server:
        (score,) = await judged(server, kind)
    assert (score.outcome, score.fingerprint, score.model_reported) == (Outcome.PASSED, "fp_1", "judge")
    shape = BUILT_IN[kind].shape
    assert shape is not None
    for request in server.requests:
        form = request.response_format
        assert form is not None
        schema = form["json_schema"]["schema"]
        assert form["type"] == "json_schema"
        assert form["json_schema"]["strict"] is True
        assert schema["required"] == list(schema["properties"]) == list(shape.fields)
        assert schema["additionalProperties"] is False


REFUSALS = [
    error_reply(400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
                type="invalid_request_error", code=None),
    error_reply(422, "Extra inputs are not permitted: body.response_format", type="invalid_request_error", code=None),
    error_reply(400, "unsupported response_format", type="invalid_request_error", code="unsupported_parameter"),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_an_endpoint_without_structured_output_is_asked_in_words_from_then_on(refusal: Reply) -> None:
    with JudgeServer(lambda request: refusal if request.response_format else Reply("NO. Not there.")) as server:
        scores = await judged(server, "relevancy", range(40), concurrency=4)
        asked = [request.response_format is not None for request in server.requests]
    assert {score.outcome for score in scores} == {Outcome.FAILED}
    assert asked.count(True) <= 5  # those in flight before the first answer
    assert asked.count(False) == 40
    assert sum(score.usage.calls for score in scores) == 40


async def test_a_bad_request_for_another_reason_keeps_the_form() -> None:
    long = error_reply(400, "maximum context length is 8192 tokens", type="invalid_request_error", code=None)
    with JudgeServer(lambda request: long if "plan 0?" in request.prompt else by_schema(request)) as server:
        scores = await judged(server, "relevancy", range(3))
    assert [score.reason for score in scores] == ["bad_request", "", ""]
    assert all(request.response_format for request in server.requests)


async def test_one_s_own_form_or_none_is_respected() -> None:
    own = {"response_format": {"type": "json_object"}}
    with JudgeServer(always(PASSING["reason"])) as server:
        await judged(server, "relevancy", extra_body=own)
        await judged(server, "relevancy", structured_output=False)
        assert [request.response_format for request in server.requests] == [own["response_format"], None]


def test_whether_a_form_is_asked_for_is_in_the_id() -> None:
    assert kind_spec("relevancy", structured_output=False).judge_id() != kind_spec("relevancy").judge_id()


async def test_a_trace_ten_windows_long_is_judged_beside_its_neighbours_and_its_calls_are_counted() -> None:
    spec_fields = {"context_window_tokens": 2_048, "max_tokens": 128, "max_calls_per_trace": 30}
    with JudgeServer(always('{"unsupported": ["It is blue."], "verdict": "NO"}')) as server:
        spec = kind_spec("faithfulness", base_url=server.base_url, **spec_fields)
        panel = panel_of(spec)
        nodes = [{"text": f"Passage {n}. " + "word " * 3_000} for n in range(4)]
        tasks = [
            make_task(0, spec.name),
            make_task(make_trace(1, source_nodes=nodes), spec.name),
            make_task(2, spec.name),
        ]
        result = await panel.evaluate(tasks)
        await panel.close()
        assert [score.outcome for score in result.scores] == [Outcome.FAILED] * 3
        calls = [score.usage.calls for score in result.scores]
        assert calls[0] == calls[2] == 1
        assert 10 <= calls[1] <= 30
        assert server.stats.calls == sum(calls) == len(result.calls)
