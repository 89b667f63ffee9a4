"""Reading a record: decode and validate, against `model_validate_json` of the whole model on the same bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.bench.frame import Figure, Run, at_most, shown
from tests.bench.labelled import labelled_traces
from tracejudge_sdk.codec import decode, encode, from_object, parse
from tracejudge_sdk.trace import Trace


def decoding(run: Run) -> list[Figure]:
    """Rounds in turns, thread CPU time."""
    raw = [encode(trace) for trace in labelled_traces(500)]
    model: Callable[[bytes], object] = Trace.model_validate_json
    ratios, without = [], []
    for _ in range(run.pick(60, 15)):
        base = _cpu_s(model, raw)
        ratios.append(_cpu_s(decode, raw) / base)
        without.append(_cpu_s(_slowly, raw) / base)
    return [
        at_most("decode and validate, model_validate_json of the whole model = 1", ratios, 0.6),
        shown("the same without msgspec (the base install)", without),
    ]


def _slowly(data: bytes) -> object:
    return from_object(parse(data))


def _cpu_s(read: Callable[[bytes], object], raw: Sequence[bytes]) -> float:
    began = time.thread_time()
    for one in raw:
        read(one)
    return time.thread_time() - began
