"""The same work by LlamaIndex's own runner and evaluator, as they come: what the consumer is held against."""

from __future__ import annotations

import asyncio
import time
import uuid
import warnings
from datetime import datetime, timezone
from typing import Any, Final

from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation import BatchEvalRunner, FaithfulnessEvaluator
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.schema import NodeWithScore, TextNode

from tests.bench.consumer_place import Place
from tracejudge.scores import JudgeId, Outcome, Score
from tracejudge_consumer.intake.sqlite import SqliteIntake
from tracejudge_sdk.codec import decode
from tracejudge_sdk.trace import Trace
from tracejudge_sdk.transports.sqlite_log import SqliteLog

_BATCH: Final = 100
_JUDGE: Final = JudgeId("stock@000000000000")


class InstantLLM(CustomLLM):
    """A model that answers at once."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=128_000, num_output=256, model_name="judge")

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="YES")

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="YES")

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        # Abstract in LlamaIndex's base class; stock evaluators do not ask.
        raise NotImplementedError("nobody streams here")


def stock(at: Place, count: int) -> float:
    """CPU seconds per trace of the same with BatchEvalRunner and FaithfulnessEvaluator as they come."""

    async def work() -> None:
        evaluator = FaithfulnessEvaluator(llm=InstantLLM())
        intake = SqliteIntake(SqliteLog(at.log), group=uuid.uuid4().hex)
        try:
            done = 0
            while done < count:
                records = intake.poll(timeout_s=0.2, max_records=min(_BATCH, count - done))
                traces = [record for record in map(decode, (one.value for one in records)) if isinstance(record, Trace)]
                if not traces:
                    continue
                results = await BatchEvalRunner({"stock": evaluator}, workers=64).aevaluate_responses(
                    queries=[trace.query for trace in traces], responses=[_response(trace) for trace in traces]
                )
                at.store.scores.insert(
                    [_score(trace, bool(one.passing)) for trace, one in zip(traces, results["stock"], strict=True)]
                )
                done += len(traces)
        finally:
            intake.close()

    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.run(work())
    return (time.process_time() - began) / count


def _response(trace: Trace) -> Response:
    nodes = [
        NodeWithScore(node=TextNode(id_=node.node_id, text=node.text or ""), score=node.score)
        for node in trace.source_nodes
    ]
    return Response(response=trace.response, source_nodes=nodes)


def _score(trace: Trace, passed: bool) -> Score:
    return Score(
        environment=trace.environment,
        app=trace.app,
        version=trace.version,
        category="",
        trace_id=trace.trace_id,
        event_time=trace.event_time,
        judge_name="stock",
        judge_id=_JUDGE,
        outcome=Outcome.PASSED if passed else Outcome.FAILED,
        score=float(passed),
        judged_at=datetime.now(timezone.utc),
    )
