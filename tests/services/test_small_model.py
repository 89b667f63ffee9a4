"""Judging by a real model behind a real server: the plumbing, never the quality (see tests/support/small_model.py)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.kinds import kind_spec
from tests.support.panels import make_task
from tests.support.small_model import CONTEXT_TOKENS, small_model
from tracejudge.clock import SystemClock
from tracejudge.judging import NothingSpent, Panel
from tracejudge.judging.calls.endpoint_check import check_endpoint
from tracejudge.judging.known_cases import known_cases
from tracejudge.scores import Outcome
from tracejudge.testing import make_trace

ENVIRONMENT = os.environ.get("TRACEJUDGE_TEST_MODEL", "")
REASONS = {"unparsable", "empty_reply", "refused", "out_of_range"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not ENVIRONMENT, reason="TRACEJUDGE_TEST_MODEL names no environment with a small model"),
]


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with small_model(Path(ENVIRONMENT)) as url:
        yield url


def panel_and_spec(base_url: str, kind: str, **fields: Any) -> tuple[Panel, Any]:
    values = {"base_url": base_url, "model": "SmolLM2-135M-Instruct.Q4_1.gguf", "context_window_tokens": CONTEXT_TOKENS}
    spec = kind_spec(kind, **{**values, "max_tokens": 96, "concurrency": 1, "timeout_s": 300.0, **fields})
    return Panel([spec], clock=SystemClock(), spend=NothingSpent(), environ={}), spec


@pytest.mark.parametrize("kind", ["faithfulness", "answer_relevancy", "correctness"])
async def test_replies_by_schema_are_read_to_the_last_one_or_say_why_not(base_url: str, kind: str) -> None:
    panel, spec = panel_and_spec(base_url, kind)
    cases = known_cases(spec)[:2]
    result = await panel.evaluate([make_task(case.trace, spec.name) for case in cases])
    await panel.close()
    assert len(result.scores) == len(cases)
    assert all(call.status == "ok" and call.input_tokens > 100 and call.output_tokens > 0 for call in result.calls)
    for score in result.scores:
        # Constrained to the schema, a reply is JSON of the shape asked for, unless it was cut at max_tokens.
        if score.outcome is not Outcome.INVALID:
            assert set(json.loads(score.raw_reply)) == set(spec.built_in.shape.fields)
        else:
            assert score.reason in REASONS
            assert score.raw_reply
        assert score.model_reported


async def test_replies_in_words_are_a_documented_shape_or_invalid_with_the_reply_kept(base_url: str) -> None:
    panel, spec = panel_and_spec(base_url, "answer_relevancy", structured_output=False)
    result = await panel.evaluate([make_task(make_trace(n), spec.name) for n in range(2)])
    await panel.close()
    for score in result.scores:
        assert score.outcome.settled or (score.reason in REASONS and score.raw_reply)


async def test_a_text_longer_than_the_window_is_judged_in_parts_that_the_server_takes(base_url: str) -> None:
    """Our estimate of tokens and the model's own count agree well enough for no part to be refused."""
    panel, spec = panel_and_spec(base_url, "context_relevancy", context_window_tokens=1024, max_tokens=64)
    nodes = [{"text": "Plans, prices and limits are set by the office in Turin each spring. " * 40}]
    result = await panel.evaluate([make_task(make_trace(0, source_nodes=nodes), spec.name)])
    await panel.close()
    assert [call.status for call in result.calls] == ["ok"] * len(result.calls)
    (score,) = result.scores
    assert score.reason != "bad_request"
    assert all(call.input_tokens <= 1024 - 64 for call in result.calls)


async def test_the_endpoint_check_finds_the_model(base_url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{base_url}/models") as response:
        listed = (await response.json())["data"][0]["id"]
    _, spec = panel_and_spec(base_url, "faithfulness", model=listed)
    assert (await check_endpoint(spec)).status == "ok"
    wrong = spec.model_copy(update={"model": "no-such-model"})
    assert (await check_endpoint(wrong)).status == "FAIL"
