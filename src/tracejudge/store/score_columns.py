"""Scores out of their columns: a fraction of what turning each row into one takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tracejudge.scores import Outcome, Score, Usage
from tracejudge.store.values import from_microseconds, from_milliseconds

OF_SCORES: Final = (
    "environment",
    "app",
    "judge_name",
    "event_time",
    "trace_id",
    "judge_id",
    "run_id",
    "version",
    "category",
    "outcome",
    "score",
    "reason",
    "stratum",
    "inclusion_probability",
    "content_hash",
    "model_reported",
    "fingerprint",
    "flags",
    "usage_calls",
    "usage_input_tokens",
    "usage_output_tokens",
    "usage_cost_usd",
    "usage_latency_ms",
    "judged_at",
    "revision",
)
"""What is always read; the judge's own words after it, where they are asked for."""

WORDS: Final = ("feedback", "raw_reply")

_OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}


def selected(*, words: bool) -> str:
    """The columns of a SELECT whose result `scores_of` reads."""
    return ", ".join((*OF_SCORES, *WORDS) if words else OF_SCORES)


def scores_of(columns: Sequence[Sequence[Any]]) -> list[Score]:
    """The scores of a result, in its order. Without the judge's words these are empty."""
    if not columns:
        return []
    count = len(columns[0])
    plain = columns[: len(OF_SCORES)]
    words = columns[len(OF_SCORES) :] or ([""] * count, [""] * count)
    usages: dict[tuple[Any, ...], Usage] = {}  # of cached verdicts and of rules all are alike
    return [
        Score(
            environment=environment,
            app=app,
            version=version,
            category=category,
            trace_id=trace_id,
            event_time=from_milliseconds(event_ms),
            judge_name=judge_name,
            judge_id=judge_id,
            run_id=run_id,
            outcome=_OUTCOMES[outcome],
            score=score,
            reason=reason,
            feedback=feedback,
            raw_reply=raw_reply,
            stratum=stratum,
            inclusion_probability=probability,
            content_hash=content_hash,
            model_reported=model,
            fingerprint=fingerprint,
            flags=tuple(flags) if flags else (),
            usage=usages.get(cost := (calls, tokens_in, tokens_out, usd, latency_ms)) or _usage(usages, cost),
            judged_at=from_microseconds(judged_us),
            revision=revision,
        )
        for (
            environment,
            app,
            judge_name,
            event_ms,
            trace_id,
            judge_id,
            run_id,
            version,
            category,
            outcome,
            score,
            reason,
            stratum,
            probability,
            content_hash,
            model,
            fingerprint,
            flags,
            calls,
            tokens_in,
            tokens_out,
            usd,
            latency_ms,
            judged_us,
            revision,
            feedback,
            raw_reply,
        ) in zip(*plain, *words, strict=True)
    ]


def _usage(known: dict[tuple[Any, ...], Usage], cost: tuple[Any, ...]) -> Usage:
    calls, tokens_in, tokens_out, usd, latency_ms = cost
    made = known[cost] = Usage(
        calls=calls, input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=usd, latency_ms=latency_ms
    )
    return made
