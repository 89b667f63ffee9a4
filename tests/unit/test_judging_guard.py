"""What becomes of a judge's failures: a value for each, few calls, no lost neighbours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timezone

import pytest

from tests.support.panels import YES, Sleeps, llm_spec, make_panel, make_task, make_tasks
from tracejudge.judging.calls.circuit import FIRST_PAUSE_S
from tracejudge.judging.calls.client import Completion, Message
from tracejudge.judging.calls.deadlines import within
from tracejudge.judging.calls.failures import CallError, MalformedReply, diagnose, retry_after_s, scrub
from tracejudge.judging.calls.guard import LONGEST_WAIT_S
from tracejudge.scores import Decision, InvalidReason, Outcome
from tracejudge.testing import ManualClock, make_trace
from tracejudge.testing.judges import HANG, Reply, ScriptedJudge

RATE_LIMITED = CallError("HTTP 429: slow down", status=429)
BAD_KEY = CallError("HTTP 401: no such key", status=401, code="invalid_api_key")


def for_marked(reply: Reply, marked: Callable[[str], bool] = lambda prompt: "POISON" in prompt) -> ScriptedJudge:
    """YES for every trace but the marked ones."""

    def script(prompt: str) -> Reply:
        if marked(prompt):
            return reply
        return YES

    return ScriptedJudge(script)


async def test_b10_one_failing_trace_leaves_its_neighbours_scored_and_judged_once() -> None:
    judge = for_marked(RuntimeError("429"))
    tasks = [make_task(0), make_task(make_trace(1, query="POISON")), make_task(2)]
    result = await make_panel(llm_spec(), judge).evaluate(tasks)
    assert [score.outcome for score in result.scores] == [Outcome.PASSED, Outcome.INVALID, Outcome.PASSED]
    assert result.scores[1].reason == InvalidReason.JUDGE_ERROR.value
    assert result.scores[1].score is None
    assert judge.calls == 3


async def test_b08_failures_of_the_judge_are_counted_apart_and_never_as_bad_answers() -> None:
    replies: dict[str, Reply] = {"plan 0?": YES, "plan 1?": YES, "plan 2?": "hm", "plan 3?": HANG}
    judge = ScriptedJudge(lambda prompt: next(reply for key, reply in replies.items() if key in prompt))
    result = await make_panel(llm_spec(timeout_s=0.05, max_attempts=1), judge).evaluate(make_tasks(range(4)))
    assert [score.score for score in result.scores] == [1.0, 1.0, None, None]
    assert [score.reason for score in result.scores] == ["", "", "unparsable", "judge_timeout"]
    assert result.scores[2].raw_reply == "hm"


async def test_b11_a_trace_without_a_response_costs_no_call() -> None:
    judge = ScriptedJudge(YES)
    result = await make_panel(llm_spec(), judge).evaluate([make_task(make_trace(0, response=None))])
    assert judge.calls == 0
    assert [(row.decision, row.reason) for row in result.ledger] == [(Decision.NOT_APPLICABLE, "no_response")]


async def test_b11_a_bad_key_costs_at_most_five_calls_and_leaves_no_invalid_row() -> None:
    judge, sleeps = ScriptedJudge(BAD_KEY), Sleeps()
    panel = make_panel(llm_spec(concurrency=64), judge, sleep=sleeps)
    result = await panel.evaluate(make_tasks(range(200)))
    assert judge.calls <= 5
    assert result.scores == ()
    assert {(row.decision, row.reason) for row in result.ledger} == {(Decision.UNDECIDED, "judge_gone_bad_key")}
    assert len(result.ledger) == 200
    assert [(gone.judge_name, gone.kind) for gone in result.gone] == [("faithful", "bad_key")]
    assert sleeps.waits_s == []
    calls_before = judge.calls
    again = await panel.evaluate(make_tasks(range(5)))
    assert judge.calls == calls_before
    assert len(again.ledger) == 5
    assert len(again.gone) == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BAD_KEY, "bad_key"),
        (CallError("HTTP 403", status=403), "forbidden"),
        (CallError("HTTP 404", status=404, code="model_not_found"), "unknown_model"),
        (CallError("HTTP 400", status=400, code="model_not_found"), "unknown_model"),
        (CallError("HTTP 429", status=429, code="insufficient_quota"), "no_quota"),
        (CallError("HTTP 400: max_tokens", status=400, code="unsupported_parameter"), "bad_settings"),
    ],
)
async def test_what_no_trace_can_mend_means_that_the_judge_is_gone(error: CallError, kind: str) -> None:
    result = await make_panel(llm_spec(), ScriptedJudge(error)).evaluate([make_task(0)])
    assert [gone.kind for gone in result.gone] == [kind]
    assert [call.status for call in result.calls] == [kind]
    assert result.scores == ()


async def test_a_judge_that_is_back_is_found_by_one_call_after_a_pause() -> None:
    clock = ManualClock()
    judge = ScriptedJudge([BAD_KEY, YES])
    panel = make_panel(llm_spec(), judge, clock=clock)
    await panel.evaluate([make_task(0)])
    clock.advance(FIRST_PAUSE_S - 1)
    assert (await panel.evaluate([make_task(1)])).scores == ()
    clock.advance(1)
    back = await panel.evaluate(make_tasks(range(2, 22)))
    assert len(back.scores) >= 1
    assert len(back.scores) + len(back.ledger) == 20
    assert len((await panel.evaluate(make_tasks(range(22, 30)))).scores) == 8


async def test_a_judge_that_stays_gone_is_tried_ever_more_rarely() -> None:
    clock, judge = ManualClock(), ScriptedJudge(BAD_KEY)
    panel = make_panel(llm_spec(), judge, clock=clock)
    for _ in range(600):
        await panel.evaluate([make_task(0)])
        clock.advance(6)
    # One hour: at 0, 1, 3, 7, 15, 30, 45 minutes.
    assert judge.calls == 7


async def test_b11_two_429s_are_waited_out_then_the_trace_is_scored_once() -> None:
    judge, sleeps = ScriptedJudge([RATE_LIMITED, RATE_LIMITED, YES]), Sleeps()
    result = await make_panel(llm_spec(), judge, sleep=sleeps).evaluate([make_task(0)])
    assert [score.outcome for score in result.scores] == [Outcome.PASSED]
    assert [(call.status, call.attempt) for call in result.calls] == [
        ("rate_limited", 1),
        ("rate_limited", 2),
        ("ok", 3),
    ]
    assert len({call.call_id for call in result.calls}) == 3
    assert result.scores[0].usage.calls == 3
    first, second = sleeps.waits_s
    assert 0.25 <= first <= 0.5 <= second <= 1.0


async def test_retry_after_is_never_undercut() -> None:
    asked = CallError("HTTP 429", status=429, retry_after_s=7.0)
    sleeps = Sleeps()
    await make_panel(llm_spec(), ScriptedJudge([asked, YES]), sleep=sleeps).evaluate([make_task(0)])
    assert sleeps.waits_s[0] >= 7.0


async def test_a_retry_after_beyond_patience_is_not_waited_for() -> None:
    asked = CallError("HTTP 429", status=429, retry_after_s=LONGEST_WAIT_S + 1)
    judge, sleeps = ScriptedJudge(asked), Sleeps()
    result = await make_panel(llm_spec(), judge, sleep=sleeps).evaluate([make_task(0)])
    assert (judge.calls, sleeps.waits_s) == (1, [])
    assert result.scores[0].reason == "rate_limited"


@pytest.mark.parametrize(
    ("error", "reason", "status"),
    [
        (RATE_LIMITED, "rate_limited", "rate_limited"),
        (CallError("HTTP 503", status=503), "judge_error", "server_error"),
        (CallError("HTTP 529", status=529), "judge_error", "server_error"),
        (CallError("connection refused"), "judge_error", "connection"),
        (ConnectionResetError("reset"), "judge_error", "connection"),
        (MalformedReply("not a chat completion"), "judge_error", "malformed"),
    ],
)
async def test_transient_failures_are_tried_as_often_as_the_spec_says(
    error: Exception, reason: str, status: str
) -> None:
    judge = ScriptedJudge(error)
    result = await make_panel(llm_spec(max_attempts=4), judge).evaluate([make_task(0)])
    assert judge.calls == 4
    assert [call.status for call in result.calls] == [status] * 4
    assert [(score.outcome, score.reason) for score in result.scores] == [(Outcome.INVALID, reason)]


@pytest.mark.parametrize(
    "error",
    [
        CallError("HTTP 400: maximum context length", status=400, code="context_length_exceeded"),
        CallError("HTTP 413", status=413),
        CallError("HTTP 422", status=422),
        CallError("HTTP 400: flagged by our content_filter", status=400),
        CallError("HTTP 403: input was flagged by moderation", status=403),
    ],
)
async def test_a_request_the_endpoint_never_takes_is_invalid_at_once(error: Exception) -> None:
    judge = for_marked(error)
    result = await make_panel(llm_spec(), judge).evaluate([make_task(make_trace(0, query="POISON")), make_task(1)])
    assert [score.reason for score in result.scores] == ["bad_request", ""]
    assert judge.calls == 2


async def test_a_trace_that_takes_too_many_parts_is_invalid_without_a_call() -> None:
    judge = ScriptedJudge(YES)
    long = make_task(make_trace(0, response="word " * 40_000))
    small = llm_spec(context_window_tokens=8192, max_calls_per_trace=4)
    result = await make_panel(small, judge).evaluate([long, make_task(1)])
    assert [score.reason for score in result.scores] == ["bad_request", ""]
    assert judge.calls == 1


async def test_b12_a_hung_call_ends_as_a_timeout_after_its_attempts() -> None:
    judge = for_marked(HANG)
    tasks = [make_task(make_trace(n, query="POISON" if n == 2 else "Why?")) for n in range(4)]
    result = await make_panel(llm_spec(timeout_s=0.05, max_attempts=2), judge).evaluate(tasks)
    assert [score.reason for score in result.scores] == ["", "", "judge_timeout", ""]
    assert judge.calls == 5
    assert [call.status for call in result.calls].count("timeout") == 2


async def test_b22_a_late_answer_is_dropped_and_the_trace_has_one_score() -> None:
    judge = ScriptedJudge([HANG, YES])
    result = await make_panel(llm_spec(timeout_s=0.05), judge).evaluate([make_task(0)])
    assert [score.outcome for score in result.scores] == [Outcome.PASSED]
    assert [call.status for call in result.calls] == ["timeout", "ok"]


async def test_a_judge_that_ignores_its_cancellation_holds_nobody_up() -> None:
    released = asyncio.Event()

    async def stubborn() -> str:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        raise RuntimeError("late, and nobody listens")

    with pytest.raises(CallError, match="no answer within"):
        await within(stubborn(), 0.02)
    released.set()
    await asyncio.sleep(0)


async def test_cancellation_passes_through_at_once() -> None:
    called = asyncio.Event()

    def hang(prompt: str) -> Reply:
        called.set()
        return HANG

    running = asyncio.ensure_future(
        make_panel(llm_spec(timeout_s=60), ScriptedJudge(hang)).evaluate(make_tasks(range(3)))
    )
    await called.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_judge_that_cancels_itself_is_a_failure_and_not_a_cancellation() -> None:
    judge = ScriptedJudge(asyncio.CancelledError())
    result = await make_panel(llm_spec(max_attempts=1), judge).evaluate([make_task(0)])
    assert result.scores[0].reason == "judge_error"


async def test_back_off_holds_no_slot_of_the_limiter() -> None:
    judge = for_marked(RATE_LIMITED)
    sleeping, go_on = asyncio.Event(), asyncio.Event()

    class Held(Sleeps):
        async def __call__(self, seconds: float) -> None:
            sleeping.set()
            await go_on.wait()

    panel = make_panel(llm_spec(concurrency=1, max_attempts=2), judge, sleep=Held())
    backing_off = asyncio.ensure_future(panel.evaluate([make_task(make_trace(0, query="POISON"))]))
    await sleeping.wait()
    other = await panel.evaluate([make_task(1)])
    assert other.scores[0].outcome is Outcome.PASSED
    go_on.set()
    assert (await backing_off).scores[0].reason == "rate_limited"


async def test_those_who_wait_for_an_unproven_judge_hold_no_slot_of_the_others() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedJudge):
        async def complete(self, messages: Sequence[Message]) -> Completion:
            asked.set()
            await answer.wait()
            return await super().complete(messages)

    judges = {"slow": Slow(YES), "quick": ScriptedJudge(YES)}
    specs = [llm_spec("slow", concurrency=8), llm_spec("quick", concurrency=8)]
    panel = make_panel(specs, lambda spec: judges[spec.name])
    slow = asyncio.ensure_future(panel.evaluate(make_tasks(range(30), "slow")))
    await asked.wait()
    assert len((await panel.evaluate(make_tasks(range(30), "quick"))).scores) == 30
    assert not slow.done()
    answer.set()
    assert len((await slow).scores) == 30


async def test_those_who_wait_for_a_slot_do_not_call_a_judge_that_is_gone_meanwhile() -> None:
    judge = ScriptedJudge([YES, BAD_KEY])
    panel = make_panel(llm_spec(concurrency=3), judge)
    await panel.evaluate([make_task(0)])
    result = await panel.evaluate(make_tasks(range(1, 50)))
    assert judge.calls <= 4
    assert len(result.ledger) == 49


async def test_names_in_a_log_stay_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    panel = make_panel(llm_spec(), ScriptedJudge(YES))
    await panel.evaluate([make_task(make_trace(0, app="shop\nCRITICAL forged", model="judge"))])
    assert "same model" in caplog.text
    assert "\nCRITICAL" not in caplog.text


async def test_a_proven_judge_uses_its_whole_concurrency_and_no_more() -> None:
    judge = ScriptedJudge(YES)
    panel = make_panel(llm_spec(concurrency=12), judge)
    await panel.evaluate([make_task(0)])
    await panel.evaluate(make_tasks(range(1, 100)))
    assert judge.most_in_flight == 12


async def test_judges_of_one_endpoint_share_its_bound() -> None:
    judge = ScriptedJudge(YES)
    specs = [llm_spec("one", concurrency=6), llm_spec("two", concurrency=4)]
    panel = make_panel(specs, judge)
    await panel.evaluate([make_task(0, "one", "two")])
    result = await panel.evaluate(make_tasks(range(1, 40), "one", "two"))
    assert len(result.scores) == 78
    assert judge.most_in_flight == 4


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, now=datetime(2026, 1, 1, 12, tzinfo=timezone.utc)) == seconds


def test_errors_of_other_libraries_are_read_by_their_common_names() -> None:
    class RateLimitError(Exception):
        status_code = 429
        code = "insufficient_quota"

    class APITimeoutError(Exception): ...

    class APIConnectionError(Exception): ...

    class ClientError(Exception):
        response = {  # noqa: RUF012 - as botocore has it
            "Error": {"Code": "ThrottlingException"},
            "ResponseMetadata": {"HTTPStatusCode": 400},
        }

    assert diagnose(RateLimitError()).gone_kind == "no_quota"
    assert diagnose(APITimeoutError()).reason is InvalidReason.JUDGE_TIMEOUT
    assert diagnose(APIConnectionError()).status == "connection"
    assert diagnose(ClientError()).status == "rate_limited"
    assert diagnose(ValueError("bug")).meaning == "invalid"


def test_nothing_that_looks_like_a_key_is_shown() -> None:
    shown = scrub("Incorrect API key provided: sk-abc123456789. Bearer hunter2hunter2", secret="")
    assert "abc123" not in shown
    assert "hunter2" not in shown
    assert "opensesame" not in scrub("got opensesame", secret="opensesame")
    assert len(scrub("x" * 5000)) <= 300
