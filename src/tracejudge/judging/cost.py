"""What judging costs: tokens and money of one call, the estimate before it, and the refusal of an uncapped judge."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tracejudge.judging.caps import NO_CAPS, Caps
from tracejudge.judging.spec import JudgeSpec
from tracejudge_sdk.trace import Trace

CHARS_PER_TOKEN: Final = 3.6
"""Of English prose under the usual tokenisers (about 4); taken a little low, so that estimates err on the dear side."""

TYPICAL_TRACE_CHARS: Final = 6_000
"""Question, answer and five passages of about 1 200 characters: what is assumed where no traces are at hand."""

TYPICAL_REPLY_TOKENS: Final = 80
_EXAMPLE_TRACES_PER_DAY: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one judge would cost. `usd` is None where the spec holds no prices."""

    judge_name: str
    traces: int
    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None

    def __str__(self) -> str:
        money = f"{self.usd:,.2f} USD" if self.usd is not None else "no price set"
        return f"{self.calls:,} calls, {self.input_tokens:,} tokens in, {self.output_tokens:,} out, {money}"


def tokens_of(chars: int) -> int:
    """Tokens of `chars` characters of text, estimated, rounded up."""
    return -int(-chars // CHARS_PER_TOKEN)


def call_cost_usd(spec: JudgeSpec, *, input_tokens: int, output_tokens: int) -> float | None:
    """Money of one call, None where the spec holds no prices."""
    if spec.usd_per_million_input_tokens is None or spec.usd_per_million_output_tokens is None:
        return None
    return (
        input_tokens * spec.usd_per_million_input_tokens + output_tokens * spec.usd_per_million_output_tokens
    ) / 1_000_000


def trace_chars(trace: Trace) -> int:
    """Characters of a trace that a judge reads."""
    return len(trace.query) + len(trace.response or "") + sum(len(node.text or "") for node in trace.source_nodes)


def estimate(
    specs: Iterable[JudgeSpec],
    *,
    traces: Collection[Trace] | None = None,
    traces_per_day: float | None = None,
    rates: Mapping[str, float] | None = None,
) -> tuple[Estimate, ...]:
    """What each judge would cost on `traces`, or in a day at `traces_per_day` traces of typical length.

    A class of one's own that calls a model by itself counts one call a trace, of unknown tokens and cost. `rates` holds
    the share of traces each judge gets, by name (1 where it is not named). Traces that fit the judge's window and no
    failed attempts: the bill can differ by parts and retries.
    """
    count = len(traces) if traces is not None else round(traces_per_day or 0)
    chars = sum(map(trace_chars, traces)) if traces is not None else count * TYPICAL_TRACE_CHARS
    estimates = []
    for spec in specs:
        rate = 1.0 if rates is None else rates.get(spec.name, 1.0)
        calls = round(count * rate) * spec.usual_calls
        overhead = len(spec.system_text()) + len(spec.prompt_text())
        seen = calls if spec.asks_model else 0
        input_tokens = tokens_of(round(chars * rate) * spec.usual_calls + seen * overhead) if seen else 0
        output_tokens = seen * min(TYPICAL_REPLY_TOKENS, spec.most_reply_tokens)
        usd: float | None = 0.0
        if spec.calls_model:
            # What a class calls by itself has no price here, whatever prices its spec holds.
            tokens = {"input_tokens": input_tokens, "output_tokens": output_tokens}
            usd = call_cost_usd(spec, **tokens) if spec.asks_model else None
        estimates.append(
            Estimate(
                judge_name=spec.name,
                traces=round(count * rate),
                calls=calls,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                usd=usd,
            )
        )
    return tuple(estimates)


def check_caps(specs: Sequence[JudgeSpec], *, estimates: Iterable[Estimate] = (), total: Caps = NO_CAPS) -> list[str]:
    """One fault for each judge that calls a model without any cap, naming the keys and what a day would cost; and for
    each whose money cannot be counted while `total`, the caps on all judges together, counts money.

    `estimates` are of a day's traffic where the caller knows it; else the fault says what 1 000 traces would cost.
    """
    known = {item.judge_name: item for item in estimates}
    faults = []
    for spec in specs:
        if not spec.calls_model:
            continue
        if total.in_money and not (spec.asks_model and spec.priced):
            faults.append(
                f"judge {spec.name!r}: what it spends cannot be counted, so budget.{total.in_money} cannot be kept; "
                "set usd_per_million_input_tokens and usd_per_million_output_tokens, or cap calls instead"
            )
        if spec.caps.any or total.any:
            continue
        if not spec.asks_model:
            faults.append(
                f"judge {spec.name!r}: {spec.kind} may call a model and has no cap; set max_calls_per_h, "
                "or calls_model = false if it calls none"
            )
            continue
        cost = known.get(spec.name) or estimate([spec], traces_per_day=_EXAMPLE_TRACES_PER_DAY)[0]
        faults.append(
            f"judge {spec.name!r}: calls a model and has no cap; set max_calls_per_h or max_usd_per_day. "
            f"Today's estimate at {cost.traces:,} traces a day: {cost}"
        )
    return faults
