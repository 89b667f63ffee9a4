"""What judging will cost: calls, tokens and money before anything is called, and the refusal of an uncapped judge."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tracejudge.counted import counted
from tracejudge.judging.calls.cost import TYPICAL_REPLY_TOKENS, call_cost_usd, tokens_of
from tracejudge.judging.division import Room, Turn, plain_texts
from tracejudge.judging.packing import section_tokens, text_tokens
from tracejudge.judging.specs.caps import NO_CAPS, Caps
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge_sdk.trace import Trace

TYPICAL_TRACE_CHARS: Final = 6_000
"""Question, answer and five passages of about 1 200 characters: what is assumed where no traces are at hand."""

_EXAMPLE_TRACES_PER_DAY: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimated cost of one judge. `usd` is None where the spec holds no prices."""

    judge_name: str
    traces: int
    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None

    def __str__(self) -> str:
        money = f"{self.usd:,.2f} USD" if self.usd is not None else "no price set"
        calls = counted(self.calls, "call", form=",")
        return f"{calls}, {self.input_tokens:,} tokens in, {self.output_tokens:,} out, {money}"


def estimate(
    specs: Iterable[JudgeSpec],
    *,
    traces: Collection[Trace] | None = None,
    traces_per_day: float | None = None,
) -> tuple[Estimate, ...]:
    """The estimated cost of each judge on `traces`, or in a day at `traces_per_day` traces of typical length.

    For traces that do not fit the judge's context window the calls of all parts are counted, though judging may end
    sooner; traces that it cannot judge in parts take no call. A user's class that calls a model by itself counts as one
    call per trace, of unknown tokens and cost. Failed attempts are not included.
    """
    count = len(traces) if traces is not None else round(traces_per_day or 0)
    return tuple(_estimate(spec, _taken(spec, traces, count), count) for spec in specs)


class _Taken(NamedTuple):
    calls: int
    input_tokens: int


def _estimate(spec: JudgeSpec, taken: _Taken, count: int) -> Estimate:
    input_tokens = taken.input_tokens if spec.asks_model else 0
    output_tokens = taken.calls * min(TYPICAL_REPLY_TOKENS, spec.most_reply_tokens) if spec.asks_model else 0
    usd: float | None = 0.0
    if spec.calls_model:
        # What a class calls by itself has no price here, whatever prices its spec holds.
        tokens = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        usd = call_cost_usd(spec, **tokens) if spec.asks_model else None
    return Estimate(
        judge_name=spec.name,
        traces=count,
        calls=taken.calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        usd=usd,
    )


def _taken(spec: JudgeSpec, traces: Collection[Trace] | None, count: int) -> _Taken:
    """Calls and tokens of all traces."""
    if not spec.calls_model:
        return _Taken(0, 0)
    prompt = text_tokens(spec.system_text()) + text_tokens(spec.prompt_text())
    prompt += sum(map(section_tokens, plain_texts(spec).values()))
    kind = spec.built_in
    if traces is None or kind is None or not kind.asks_model:
        chars = count * TYPICAL_TRACE_CHARS if traces is None else sum(map(_chars, traces))
        calls = count * spec.usual_calls
        return _Taken(calls, tokens_of(chars) * spec.usual_calls + calls * prompt)
    room = Room(spec, kind)
    sizes = [tokens for trace in traces for tokens in room.calls(_texts(trace))]
    return _Taken(len(sizes) * spec.repeats, (sum(sizes) + len(sizes) * prompt) * spec.repeats)


class _Texts(NamedTuple):
    query: str
    response: str
    passages: tuple[str, ...]
    reference: str
    history: tuple[Turn, ...]
    second_response: str = ""


def _texts(trace: Trace) -> _Texts:
    return _Texts(
        trace.query,
        trace.response or "",
        tuple(text for node in trace.source_nodes if (text := node.text) and not text.isspace()),
        trace.reference or "",
        tuple(Turn(turn.role, turn.content) for turn in trace.history),
    )


def _chars(trace: Trace) -> int:
    return len(trace.query) + len(trace.response or "") + sum(len(node.text or "") for node in trace.source_nodes)


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
            f"Today's estimate at {counted(cost.traces, 'trace', form=',')} a day: {cost}"
        )
    return faults
