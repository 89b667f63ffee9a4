"""`@observe`: every call of a function becomes a trace, and the function stays what it was.

Functions, coroutine functions, generators and async generators stay of their kind; results, pieces, exceptions and
`send`/`throw`/`close` pass through. A stream is logged whole when it ends, and as incomplete, with what had been handed
on, when its reader stops: by closing it, by dropping it, or by being cancelled. How query, response and source nodes
are found: `calls`.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from tracejudge_sdk.calls import CallRules, Pick
from tracejudge_sdk.default_client import default_client
from tracejudge_sdk.recording import TraceRecording
from tracejudge_sdk.streams import async_generator_of, generator_of, observed_async_generator, observed_generator

if TYPE_CHECKING:
    from tracejudge_sdk.client import TraceClient

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def observe(function: Function, /) -> Function: ...


@overload
def observe(
    *,
    client: TraceClient | None = None,
    query: Pick | None = None,
    response: Pick | None = None,
    source_nodes: Pick | None = None,
    **fields: Any,
) -> Callable[[Function], Function]: ...


def observe(
    function: Callable[..., Any] | None = None,
    /,
    *,
    client: TraceClient | None = None,
    query: Pick | None = None,
    response: Pick | None = None,
    source_nodes: Pick | None = None,
    **fields: Any,
) -> Any:
    """A decorator, bare or with rules, that logs each call as a trace of `client` or of the default client.

        @observe
        def answer(question: str) -> str: ...

        @observe(query="request.question", response="answer", source_nodes="passages", category="faq")
        async def chat(request: Request) -> Reply: ...

    `fields` are other fields of `log()`: a fixed value, or a function of the arguments (a mapping by name). Inside the
    function `current_trace()` gives the trace. The default client is the one given to `set_default_client`, else one
    made from the environment at the first call.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        rules = CallRules(
            name=getattr(function, "__qualname__", type(function).__name__),
            signature=_signature(function),
            query=query,
            response=response,
            source_nodes=source_nodes,
            fields=fields,
        )
        return _wrapped(function, _Start(client, rules))

    return decorate if function is None else decorate(function)


class _Start:
    """Opens the recording of one call."""

    def __init__(self, client: TraceClient | None, rules: CallRules) -> None:
        self._client = client
        self.rules = rules

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TraceRecording:
        client = self._client or default_client()
        fields = self.rules.of_call(args, kwargs)
        return TraceRecording(_nowhere, fields) if client is None else client.trace(**cast("Any", fields))


def _nowhere(fields: dict[str, Any]) -> str:
    return str(fields["trace_id"])


def _wrapped(function: Callable[..., Any], start: _Start) -> Callable[..., Any]:
    rules = start.rules
    wrapper: Callable[..., Any]
    if inspect.iscoroutinefunction(function):

        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            recording = start(args, kwargs)
            with _Ending(recording), recording.current():
                return _observed(await function(*args, **kwargs), recording, rules)

    elif inspect.isgeneratorfunction(function):
        wrapper = generator_of(lambda *args, **kwargs: (function(*args, **kwargs), start(args, kwargs)), rules)
    elif inspect.isasyncgenfunction(function):
        wrapper = async_generator_of(lambda *args, **kwargs: (function(*args, **kwargs), start(args, kwargs)), rules)
    else:

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            recording = start(args, kwargs)
            with _Ending(recording), recording.current():
                return _observed(function(*args, **kwargs), recording, rules)

    return functools.wraps(function)(wrapper)


class _Ending:
    """Logs the trace when the block raises; how it ends otherwise is found from its result."""

    def __init__(self, recording: TraceRecording) -> None:
        self._recording = recording

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._recording.finish(error)


def _observed(result: Any, recording: TraceRecording, rules: CallRules) -> Any:
    """The result to hand on; the trace is logged now, or when what the result stands for has come to its end."""
    try:
        return _read(result, recording, rules)
    except Exception:  # noqa: BLE001 - a foreign object may raise whatever is asked of it (an unbound proxy its class)
        recording.finish()
        return result


def _read(result: Any, recording: TraceRecording, rules: CallRules) -> Any:
    if isinstance(result, types.GeneratorType):
        return observed_generator(result, recording, rules)
    if isinstance(result, types.AsyncGeneratorType):
        return observed_async_generator(result, recording, rules)
    if isinstance(result, types.CoroutineType):
        return _awaited(result, recording, rules)
    stream = getattr(result, "__dict__", {}).get("response_gen")
    if isinstance(stream, (types.GeneratorType, types.AsyncGeneratorType)):
        # A LlamaIndex streaming response: its reader takes the pieces from here.
        if not recording.says("source_nodes"):
            recording.set(source_nodes=getattr(result, "source_nodes", None))
        if isinstance(stream, types.GeneratorType):
            result.response_gen = observed_generator(stream, recording, rules)
        else:
            result.response_gen = observed_async_generator(stream, recording, rules)
        return result
    recording.finish(**rules.of_result(result))
    return result


async def _awaited(result: types.CoroutineType[Any, Any, Any], recording: TraceRecording, rules: CallRules) -> Any:
    with _Ending(recording), recording.current():
        return _observed(await result, recording, rules)


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return None
