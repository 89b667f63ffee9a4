"""Ready-made scripts for the judge server: verdicts, latency, rate limits, failures, and rules that choose."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from tests.support.judge_reply import (
    JudgeRequest,
    Reply,
    Script,
    model_not_found,
    rate_limit_exceeded,
    uniform,
)


def always(content: str, **fields: Any) -> Script:
    """The same reply to everything; `fields` are those of Reply."""
    reply = Reply(content, **fields)
    return lambda request: reply


def verdict_by_regex(pattern: str, *, found: str = "YES", otherwise: str = "NO") -> Script:
    """`found` where the prompt matches (re.search, "." also matches line ends), else `otherwise`."""
    compiled = re.compile(pattern, re.DOTALL)
    yes, no = Reply(found), Reply(otherwise)
    return lambda request: yes if compiled.search(request.prompt) else no


def noisy_verdict(
    truth: Callable[[JudgeRequest], bool],
    *,
    sensitivity: float = 1.0,
    specificity: float = 1.0,
    passed: str = "YES",
    failed: str = "NO",
    seed: int = 0,
    per_attempt: bool = False,
) -> Script:
    """A judge with known error rates: the same prompt gets the same verdict in every run.

    sensitivity = P(says passed | truth is passed), specificity = P(says failed | truth is failed). With
    `per_attempt` the same prompt asked again may get another verdict, as from a model at a temperature above 0.
    """

    def script(request: JudgeRequest) -> Reply:
        is_true = truth(request)
        again = request.attempt if per_attempt else 0
        right = uniform("verdict", seed, request.prompt_hash, again) < (sensitivity if is_true else specificity)
        return Reply(passed if is_true == right else failed)

    return script


def with_latency(script: Script, *, median_s: float, sigma: float, seed: int = 0) -> Script:
    """Adds a lognormal delay, fixed for each prompt: exp(ln median + sigma z), z standard normal."""
    normal = NormalDist()

    def delayed(request: JudgeRequest) -> Reply:
        reply = script(request)
        # inv_cdf is defined on the open interval alone.
        position = min(max(uniform("latency", seed, request.prompt_hash), 1e-12), 1 - 1e-12)
        return replace(reply, delay_s=reply.delay_s + median_s * math.exp(sigma * normal.inv_cdf(position)))

    return delayed


def failing_first(script: Script, attempts: int, failure: Reply) -> Script:
    """`failure` for the first attempts of each prompt, then the script."""
    return lambda request: failure if request.attempt <= attempts else script(request)


def failing_randomly(script: Script, probability: float, failure: Reply, *, seed: int = 0) -> Script:
    """`failure` with a probability per attempt, drawn from the seed, the prompt and the attempt."""

    def script_or_failure(request: JudgeRequest) -> Reply:
        drawn = uniform("failure", seed, request.prompt_hash, request.attempt)
        return failure if drawn < probability else script(request)

    return script_or_failure


def rate_limited_first(script: Script, attempts: int, *, retry_after_s: float | None = None) -> Script:
    """429 with `Retry-After` for the first attempts of each prompt."""
    return failing_first(script, attempts, rate_limit_exceeded(retry_after_s=retry_after_s))


def rate_limited_randomly(
    script: Script, probability: float, *, retry_after_s: float | None = None, seed: int = 0
) -> Script:
    """429 with a probability per attempt."""
    return failing_randomly(script, probability, rate_limit_exceeded(retry_after_s=retry_after_s), seed=seed)


def in_turn(*replies: Reply) -> Script:
    """The first reply to a prompt's first attempt, and so on; the last one from then on."""
    return lambda request: replies[min(request.attempt, len(replies)) - 1]


def only_models(models: Collection[str], script: Script) -> Script:
    """404 model_not_found for every other model."""
    return lambda request: script(request) if request.model in models else model_not_found(request.model)


@dataclass(frozen=True)
class Rule:
    """A reply for the requests that meet every condition given; without one, for all."""

    reply: Reply | Script
    model: str | None = None
    prompt: str | None = None
    """A regular expression, searched in the prompt."""
    attempts: range | None = None
    """Such as range(1, 3): the first two attempts."""

    def matches(self, request: JudgeRequest) -> bool:
        return (
            (self.model is None or self.model == request.model)
            and (self.prompt is None or re.search(self.prompt, request.prompt, re.DOTALL) is not None)
            and (self.attempts is None or request.attempt in self.attempts)
        )


def first_match(*rules: Rule) -> Script:
    """The reply of the first rule that matches; a request no rule foresaw raises, which fails the test."""

    def script(request: JudgeRequest) -> Reply:
        for rule in rules:
            if rule.matches(request):
                return rule.reply if isinstance(rule.reply, Reply) else rule.reply(request)
        raise LookupError(
            f"no rule for model {request.model!r}, attempt {request.attempt}, prompt {request.prompt[:200]!r}"
        )

    return script
