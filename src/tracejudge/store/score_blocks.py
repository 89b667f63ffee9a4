"""What judges said, on its way into `scores` and `calls` a column at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tracejudge.scores import JudgeCall, LedgerRow, Outcome, Score
from tracejudge.store.blocks import Block, IrregularRows, instants_us
from tracejudge.store.score_rows import MAX_REVISION, versions_of

_PASSED: Final = Outcome.PASSED.value
_FAILED: Final = Outcome.FAILED.value
_INVALID: Final = Outcome.INVALID.value


def score_block(scores: Sequence[Score]) -> Block:
    """The columns of `scores`. Raises IrregularRows where a cell needs a closer look."""
    block = _places(scores)
    settled = _add_outcomes(block, scores)
    block.texts("reason", [one.reason for one in scores])
    block.texts("feedback", [one.feedback for one in scores])
    block.texts("raw_reply", [one.raw_reply for one in scores])
    block.texts("stratum", [one.stratum for one in scores])
    _chances(block, [one.inclusion_probability for one in scores], above=0.0)
    block.texts("content_hash", [one.content_hash for one in scores])
    block.texts("model_reported", [one.model_reported for one in scores])
    block.texts("fingerprint", [one.fingerprint for one in scores])
    block.text_lists("flags", [one.flags for one in scores])
    usages = [one.usage for one in scores]
    block.wholes("usage_calls", [usage.calls for usage in usages], high=2**32 - 1)
    block.wholes("usage_input_tokens", [usage.input_tokens for usage in usages])
    block.wholes("usage_output_tokens", [usage.output_tokens for usage in usages])
    block.optional_reals("usage_cost_usd", [usage.cost_usd for usage in usages])
    block.reals("usage_latency_ms", [usage.latency_ms for usage in usages])
    judged_us = instants_us([one.judged_at for one in scores])
    block.add("judged_at", judged_us)
    revisions = [one.revision for one in scores]
    block.wholes("revision", revisions, high=MAX_REVISION)
    block.add("row_version", versions_of(revisions, settled, judged_us))
    return block


def call_block(calls: Sequence[JudgeCall]) -> Block:
    """The columns of `calls`. Raises IrregularRows where a cell needs a closer look."""
    block = Block()
    block.texts("judge_name", [one.judge_name for one in calls])
    block.add("started_at", instants_us([one.started_at for one in calls]))
    block.texts("call_id", [one.call_id for one in calls])
    block.texts("judge_id", [one.judge_id for one in calls])
    block.texts("environment", [one.environment for one in calls])
    block.texts("app", [one.app for one in calls])
    block.texts("trace_id", [one.trace_id for one in calls])
    block.texts("run_id", [one.run_id for one in calls])
    block.texts("status", [one.status for one in calls])
    block.wholes("attempt", [one.attempt for one in calls], high=2**16 - 1)
    block.wholes("input_tokens", [one.input_tokens for one in calls])
    block.wholes("output_tokens", [one.output_tokens for one in calls])
    block.optional_reals("cost_usd", [one.cost_usd for one in calls])
    block.reals("latency_ms", [one.latency_ms for one in calls])
    block.texts("model_reported", [one.model_reported for one in calls])
    return block


def _add_outcomes(block: Block, scores: Sequence[Score]) -> Sequence[bool]:
    """Outcomes and their numbers; gives which of them are settled."""
    # By identity: an enumeration's own hash, equality and `value` are a call of Python each.
    words = [
        _PASSED
        if one is Outcome.PASSED
        else _FAILED
        if one is Outcome.FAILED
        else _INVALID
        if one is Outcome.INVALID
        else None
        for one in [score.outcome for score in scores]
    ]
    if None in words:
        raise IrregularRows("outcome")
    settled = [word is not _INVALID for word in words]
    numbers = [one.score for one in scores]
    said = [number for number in numbers if number is not None]
    # What is stored for others is not what they say: see `score_rows.sound`.
    if [number is not None for number in numbers] != settled or (said and not 0.0 <= min(said) <= max(said) <= 1.0):
        raise IrregularRows("score")
    block.texts("outcome", words)
    block.optional_reals("score", numbers)
    return settled


def _places(rows: Sequence[Score] | Sequence[LedgerRow]) -> Block:
    """The columns that say whose a row is, of which trace and run."""
    block = Block()
    block.texts("environment", [one.environment for one in rows])
    block.texts("app", [one.app for one in rows])
    block.texts("judge_name", [one.judge_name for one in rows])
    block.add("event_time", [us // 1000 for us in instants_us([one.event_time for one in rows])])
    block.texts("trace_id", [one.trace_id for one in rows])
    block.texts("judge_id", [one.judge_id for one in rows])
    block.texts("run_id", [one.run_id for one in rows])
    block.texts("version", [one.version for one in rows])
    block.texts("category", [one.category for one in rows])
    return block


def _chances(block: Block, chances: Sequence[float], *, above: float) -> None:
    block.reals("inclusion_probability", chances, low=0.0, high=1.0)
    if chances and min(chances) <= above:
        raise IrregularRows("inclusion_probability")
