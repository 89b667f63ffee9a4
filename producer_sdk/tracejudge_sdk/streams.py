"""A stream on its way to its reader, and the trace that is logged when it ends.

The reader gets each piece the moment its source gives it; what it sends, throws or closes reaches the source. While
the source runs, and only then, its trace is the current one. Nothing is read ahead and nothing is held back.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol

from tracejudge_sdk.calls import Pieces
from tracejudge_sdk.recording import TraceRecording


class StreamRules(Protocol):
    """What the pieces of a stream say about the answer."""

    def collector(self) -> Pieces: ...

    def of_stream(self, pieces: Pieces) -> dict[str, Any]: ...


def generator_of(
    opened: Callable[..., tuple[Generator[Any, Any, Any], TraceRecording]], rules: StreamRules
) -> Callable[..., Generator[Any, Any, Any]]:
    """A generator function whose generators are those of `opened`, observed; PEP 380 says what passes through."""

    def observed(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        stream, recording = opened(*args, **kwargs)
        pieces = rules.collector()
        step: Callable[[], Any] = functools.partial(next, stream)
        try:
            while True:
                with recording.current():
                    piece = step()
                pieces.add(piece)
                try:
                    sent = yield piece
                except GeneratorExit:
                    with recording.current():
                        stream.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the source's to handle
                    step = functools.partial(stream.throw, error)
                else:
                    step = functools.partial(stream.send, sent)
        except StopIteration as end:
            recording.finish(**rules.of_stream(pieces))
            return end.value
        except BaseException as error:
            recording.finish(error, **rules.of_stream(pieces))
            raise

    return observed


def async_generator_of(
    opened: Callable[..., tuple[AsyncGenerator[Any, Any], TraceRecording]], rules: StreamRules
) -> Callable[..., AsyncGenerator[Any, Any]]:
    """`generator_of` for async generators."""

    async def observed(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        stream, recording = opened(*args, **kwargs)
        pieces = rules.collector()
        _left = _Left(recording, rules, pieces)  # lives as long as this frame does
        step: Callable[[], Any] = stream.__anext__
        try:
            while True:
                with recording.current():
                    piece = await step()
                pieces.add(piece)
                try:
                    sent = yield piece
                except GeneratorExit:
                    with recording.current():
                        await stream.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the source's to handle
                    step = functools.partial(stream.athrow, error)
                else:
                    step = functools.partial(stream.asend, sent)
        except StopAsyncIteration:
            recording.finish(**rules.of_stream(pieces))
        except BaseException as error:
            recording.finish(error, **rules.of_stream(pieces))
            raise

    return observed


def observed_generator(
    stream: Generator[Any, Any, Any], recording: TraceRecording, rules: StreamRules
) -> Generator[Any, Any, Any]:
    """The generator, observed. Dropped before its first piece it is incomplete too."""
    observed = generator_of(lambda: (stream, recording), rules)()
    _when_dropped(observed, recording)
    return observed


def observed_async_generator(
    stream: AsyncGenerator[Any, Any], recording: TraceRecording, rules: StreamRules
) -> AsyncGenerator[Any, Any]:
    """`observed_generator` for async generators."""
    observed = async_generator_of(lambda: (stream, recording), rules)()
    _when_dropped(observed, recording)
    return observed


class _Left:
    """Ends the trace of an async generator that nobody closes: its event loop may be gone before it is dropped."""

    def __init__(self, recording: TraceRecording, rules: StreamRules, pieces: Pieces) -> None:
        self._ending = (recording, rules, pieces)

    def __del__(self) -> None:
        recording, rules, pieces = self._ending
        recording.finish(GeneratorExit(), **rules.of_stream(pieces))


def _when_dropped(stream: object, recording: TraceRecording) -> None:
    # A generator that was never started runs none of its code when it goes.
    weakref.finalize(stream, recording.finish, GeneratorExit()).atexit = False
