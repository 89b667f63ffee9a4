"""A user's own query engine, asked the questions of traces: its answer, its passages, and how long it took.

Anything with LlamaIndex's `aquery(text)` will do. What it raises makes that one trace an error, as it would be in the
app; the others go on.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final, Protocol

from tracejudge.clock import Clock
from tracejudge.errors import SettingsError
from tracejudge.judging.calls.failures import describe
from tracejudge.together import ended
from tracejudge_sdk.nodes import read_node
from tracejudge_sdk.trace import Trace

AHEAD: Final = 4
"""How many answers for each that is being asked for may wait to be judged: a bound on what is held."""


class QueryEngine(Protocol):
    """LlamaIndex's query engine, as far as it is needed here."""

    async def aquery(self, query: str, /) -> Any: ...


def load_engine(path: str) -> QueryEngine:
    """The engine at "package.module:name": an object with `aquery`, or something that gives one when called.

    Raises SettingsError, with what was found instead.
    """
    module_name, _, name = path.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module_name), name)
    except (Exception, SystemExit) as error:  # importing runs somebody else's code
        raise SettingsError(
            [
                f"engine: cannot import {path!r}: {describe(error)}; write package.module:name, "
                "or put its folder into PYTHONPATH"
            ]
        ) from error
    if not hasattr(found, "aquery") or isinstance(found, type):
        if not callable(found):
            raise SettingsError([f"engine: {path} has no method aquery, and cannot be called for an engine either"])
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise SettingsError([f"engine: {path}() raised {describe(error)}"]) from error
    if not callable(getattr(found, "aquery", None)):
        raise SettingsError([f"engine: {path} gives a {type(found).__name__}, which has no method aquery"])
    engine: QueryEngine = found
    return engine


async def answer(engine: QueryEngine, trace: Trace, *, clock: Clock, timeout_s: float) -> Trace:
    """`trace` as the engine answers it now: response, passages, status, latency up to the last piece of a stream."""
    start = clock.monotonic()
    try:
        # wait_for and not our own bound: an engine is the app's code, and is to end before the next begins.
        response = await asyncio.wait_for(engine.aquery(trace.query), timeout_s)
        text = await asyncio.wait_for(_text_of(response), timeout_s)
    except asyncio.TimeoutError:
        return _with(trace, status="error", error=f"no answer within {timeout_s:g} s", response=None)
    except Exception as error:  # noqa: BLE001 - anybody's engine: what it raises is this trace's outcome
        return _with(trace, status="error", error=describe(error), response=None)
    latency_ms = 1000.0 * (clock.monotonic() - start)
    nodes = [read_node(node)[0]._asdict() for node in getattr(response, "source_nodes", None) or ()]
    return _with(trace, status="ok", error=None, response=text, source_nodes=nodes, latency_ms=latency_ms)


async def answers(
    engine: QueryEngine, traces: Iterable[Trace], *, concurrency: int, clock: Clock, timeout_s: float
) -> AsyncGenerator[Trace, None]:
    """Each trace answered, in order; at most `concurrency` questions are open, whatever the judges are doing.

    Asking goes on while earlier answers are judged, up to a few answers ahead.
    """
    slots = asyncio.Semaphore(concurrency)
    waiting: list[asyncio.Task[Trace]] = []
    source = iter(traces)

    async def ask(trace: Trace) -> Trace:
        async with slots:
            return await answer(engine, trace, clock=clock, timeout_s=timeout_s)

    try:
        while True:
            while len(waiting) < concurrency * AHEAD and (trace := next(source, None)) is not None:
                waiting.append(asyncio.ensure_future(ask(trace)))
            if not waiting:
                return
            yield await waiting.pop(0)
    finally:
        await ended(waiting)


async def _text_of(response: Any) -> str:
    """The whole text of a response, streamed or not."""
    for name in ("aget_response", "get_response"):
        whole = getattr(response, name, None)
        if callable(whole):
            response = whole()
            if inspect.isawaitable(response):
                response = await response
            break
    return str(response)


def _with(trace: Trace, **fields: Any) -> Trace:
    return Trace.model_validate({**trace.model_dump(), **fields})
