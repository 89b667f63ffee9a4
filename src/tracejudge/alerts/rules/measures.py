"""What a rule measures of a judged trace: the verdict, or how judging and answering went. Always good or bad.

Every measure is a share of good ones among all observed, so that one detector, with one promise, serves them all. A
mean of latencies or of costs would need a bound or a model of their tails to promise anything; "at least 95 % within
3 s" needs none, is what people set as a goal, and is moved by everything that moves the tail.

    quality            the verdict itself: passed or failed
    invalid            good: the judge came to a verdict at all
    lag_s              good: judged within so many seconds of being served
    judge_latency_ms   good: judging took so long at most; of verdicts that called a model
    tokens, usd        good: the verdict cost so much at most; of verdicts that called a model (and have a price)
    latency_ms         good: the app answered within so many milliseconds; of traces that say so

What the app did (quality, latency_ms) is weighted, and so of all traffic. The others are about the judging itself: each
judged trace counts once, also where copies of its content were judged before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from tracejudge.scores import Outcome, Score

Measure = Literal["quality", "invalid", "lag_s", "judge_latency_ms", "tokens", "usd", "latency_ms"]

WITH_LIMIT: Final[Mapping[Measure, str]] = {
    "lag_s": "seconds",
    "judge_latency_ms": "milliseconds",
    "tokens": "tokens",
    "usd": "US dollars",
    "latency_ms": "milliseconds",
}
"""The measures that need `at_most`, with its unit."""

WEIGHTED: Final[frozenset[Measure]] = frozenset({"quality", "latency_ms"})
"""The measures that are about all traffic, of which judges see a sample."""


def good(
    measure: Measure,
    score: Score,
    *,
    at_most: float | None,
    latency_ms: float | None,
    backfill_s: float | None = None,
    judged_since: datetime | None = None,
) -> bool | None:
    """Whether the row is good in this measure; None when it says nothing about it.

    `latency_ms` is how long the app took for the trace, where it is known. `backfill_s`: a trace judged later than that
    is of an old file that was read, or of an outage that was told as no data long ago; it says nothing about lag. Nor
    does one served before `judged_since`, when the series or the one before it had its first verdict: nobody
    was judging then.
    """
    if measure == "quality":
        outcome = score.outcome
        return None if outcome is Outcome.INVALID else outcome is Outcome.PASSED
    if measure == "invalid":
        return score.outcome.settled
    value = _value(measure, score, latency_ms=latency_ms)
    if measure == "lag_s" and value is not None and backfill_s is not None:
        before = judged_since is not None and score.event_time < judged_since
        if before or value > backfill_s:
            return None
    return None if value is None or at_most is None else value <= at_most


def _value(measure: Measure, score: Score, *, latency_ms: float | None) -> float | None:
    if measure == "latency_ms":
        return latency_ms
    if measure == "lag_s":
        return (score.judged_at - score.event_time).total_seconds()
    if score.usage.calls == 0:
        return None  # answered by a rule or from the cache: nothing was called
    if measure == "judge_latency_ms":
        return score.usage.latency_ms
    if measure == "tokens":
        return float(score.usage.input_tokens + score.usage.output_tokens)
    return score.usage.cost_usd


def in_words(measure: Measure, *, at_most: float | None, judge: str) -> str:
    """Whose share it is, before `of APP`.

    >>> in_words("lag_s", at_most=600, judge="lexical")
    'share judged by lexical within 600 s'
    """
    limit = f"{at_most:g}" if at_most is not None else ""
    return {
        "quality": judge,
        "invalid": f"share that {judge} could judge",
        "lag_s": f"share judged by {judge} within {limit} s",
        "judge_latency_ms": f"share that {judge} judged in {limit} ms",
        "tokens": f"share that {judge} judged for {limit} tokens",
        "usd": f"share that {judge} judged for {limit} USD",
        "latency_ms": f"share (seen by {judge}) answered within {limit} ms",
    }[measure]
