"""One call for each distinct (content, JudgeId, repeat): in flight, in memory, and in the store.

Only settled verdicts are kept. Whoever asks while the same question is being put waits for its answer, an invalid one
too; only a cancellation makes the next one ask for itself. What measures a judge (anchors, repeats, noise) must not
come here: it asks with `fresh`, or has no cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from tracejudge.errors import TraceJudgeError
from tracejudge.judging.calls.loops import PerLoop
from tracejudge.judging.replies.judgement import NO_JUDGEMENT, Judgement

_LOG: Final = logging.getLogger(__name__)

MEMORY_ENTRIES: Final = 100_000
MEMORY_BYTES: Final = 128_000_000
_UNSTORED_MOST: Final = 10_000
_REST: Final = 9.0
"""So many times what storing took lies between two of them: the store of a quick judge would do nothing else. What is
judged meanwhile goes together; if the process is killed it is not known to be paid for."""
_LONGEST_REST_S: Final = 1.0
_ENTRY_BYTES: Final = 600  # of key, tuple and table slot, beside the texts


class CacheKey(NamedTuple):
    """The key of a cached verdict: its content and its judge."""

    content_hash: str
    judge_id: str
    repeat: int = 0


class VerdictStore(Protocol):
    """The storage in which cached verdicts outlive the process.

    Both methods may block, and are called outside the event loop.
    """

    def get(self, keys: Collection[tuple[str, str, int]], /) -> Mapping[tuple[str, str, int], str]: ...
    def put(self, verdicts: Mapping[tuple[str, str, int], str], /) -> None: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is kept of a settled judgement: everything but its trace and its calls."""

    passing: bool
    score: float
    feedback: str
    raw_reply: str
    flags: tuple[str, ...]
    model_reported: str
    fingerprint: str

    @classmethod
    def of(cls, judgement: Judgement) -> Verdict | None:
        """None where there is no settled verdict."""
        if judgement.passing is None or judgement.score is None or judgement.invalid_result:
            return None
        return cls(
            judgement.passing,
            judgement.score,
            judgement.feedback or "",
            judgement.raw_reply,
            judgement.flags,
            judgement.model_reported,
            judgement.fingerprint,
        )

    @classmethod
    def from_text(cls, text: str) -> Verdict | None:
        """None for what another release may have written."""
        try:
            passing, score, feedback, raw_reply, flags, model, fingerprint = json.loads(text)
            return cls(bool(passing), float(score), feedback, raw_reply, tuple(flags), model, fingerprint)
        except (ValueError, TypeError):
            return None

    def to_text(self) -> str:
        fields = [self.passing, self.score, self.feedback, self.raw_reply, self.flags]
        return json.dumps([*fields, self.model_reported, self.fingerprint])

    def judgement(self, served: str) -> Judgement:
        return NO_JUDGEMENT.but(
            passing=self.passing,
            score=self.score,
            feedback=self.feedback,
            raw_reply=self.raw_reply,
            flags=self.flags,
            model_reported=self.model_reported,
            fingerprint=self.fingerprint,
            served=served,
        )

    @property
    def size_bytes(self) -> int:
        return _ENTRY_BYTES + 2 * (len(self.feedback) + len(self.raw_reply))


class Memory:
    """The least recently used goes first, by number and by size. For several threads."""

    def __init__(self, *, entries: int = MEMORY_ENTRIES, size_bytes: int = MEMORY_BYTES) -> None:
        self._most = entries
        self._most_bytes = size_bytes
        self._bytes = 0
        self._verdicts: OrderedDict[CacheKey, Verdict] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._verdicts)

    def get(self, key: CacheKey) -> Verdict | None:
        with self._lock:
            verdict = self._verdicts.get(key)
            if verdict is not None:
                self._verdicts.move_to_end(key)
            return verdict

    def put(self, key: CacheKey, verdict: Verdict) -> None:
        with self._lock:
            before = self._verdicts.pop(key, None)
            self._bytes += verdict.size_bytes - (before.size_bytes if before is not None else 0)
            self._verdicts[key] = verdict
            while len(self._verdicts) > self._most or (self._bytes > self._most_bytes and len(self._verdicts) > 1):
                _, dropped = self._verdicts.popitem(last=False)
                self._bytes -= dropped.size_bytes


class _Traffic:
    """What one event loop has under way: questions in flight, and reads and writes of the store."""

    def __init__(self) -> None:
        self.flights: dict[tuple[CacheKey, bool], asyncio.Future[Judgement | None]] = {}
        self.reads: dict[CacheKey, asyncio.Future[str | None]] = {}
        self.reading: asyncio.Task[None] | None = None
        self.writing: asyncio.Task[None] | None = None
        self.hurry = asyncio.Event()  # nothing more is to come that could go along


class VerdictCache:
    """The cache of one process. One instance may serve several panels, and event loops one after the other.

    Raises RuntimeError where two loops run at once: threads take a cache each, with one `memory` between them.
    """

    def __init__(self, *, store: VerdictStore | None = None, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        self._store = store
        self._traffic = PerLoop(self._new_traffic)
        self._unstored: dict[CacheKey, str] = {}
        self._failing = False

    def _new_traffic(self) -> _Traffic:
        # What is to be stored belongs to the cache, so that it outlives a loop: two at once would lose some of it.
        if self._traffic.elsewhere():
            raise RuntimeError(
                "this VerdictCache serves another event loop at this moment: give each thread one of its own, with the "
                "same memory=Memory()"
            )
        return _Traffic()

    async def judged(
        self, key: CacheKey, judge: Callable[[], Awaitable[Judgement]], *, background: bool = False
    ) -> Judgement:
        """The verdict kept under `key`, or what `judge()` gives; `served` says where it came from ("" for a call)."""
        if (kept := self.memory.get(key)) is not None:
            return kept.judgement("memory")
        flights = self._traffic.get().flights
        while True:
            # Live traffic does not wait for a question that stands behind it in the queue.
            flight = flights.get((key, False)) or (flights.get((key, True)) if background else None)
            if flight is None:
                return await self._ask(key, judge, flights, background=background)
            answer = await asyncio.shield(flight)
            if answer is not None:
                return answer.but(calls=(), latency_ms=0.0, served="in_flight")

    async def _ask(
        self,
        key: CacheKey,
        judge: Callable[[], Awaitable[Judgement]],
        flights: dict[tuple[CacheKey, bool], asyncio.Future[Judgement | None]],
        *,
        background: bool,
    ) -> Judgement:
        flight = flights[key, background] = asyncio.get_running_loop().create_future()
        answer: Judgement | None = None
        try:
            stored = await self._read(key) if self._store is not None else None
            if stored is not None:
                self.memory.put(key, stored)
                answer = stored.judgement("store")
            else:
                answer = await judge()
                self._keep(key, answer)
            return answer
        finally:
            del flights[key, background]
            flight.set_result(answer)

    def _keep(self, key: CacheKey, answer: Judgement) -> None:
        verdict = Verdict.of(answer)
        if verdict is None:
            return
        self.memory.put(key, verdict)
        if self._store is not None:
            self._unstored[key] = verdict.to_text()
            traffic = self._traffic.get()
            if traffic.writing is None:
                traffic.writing = asyncio.ensure_future(self._write(traffic))

    async def close(self) -> None:
        """Waits until what was judged in the running loop is stored, or the store turns out to be away."""
        traffic = self._traffic.get()
        traffic.hurry.set()
        if traffic.writing is not None:
            await traffic.writing
        self._traffic.pop()
        self._traffic.take_stale()

    async def _read(self, key: CacheKey) -> Verdict | None:
        traffic = self._traffic.get()
        wanted = traffic.reads.setdefault(key, asyncio.get_running_loop().create_future())
        if traffic.reading is None:
            traffic.reading = asyncio.ensure_future(self._read_wanted(traffic))
        text = await asyncio.shield(wanted)
        return Verdict.from_text(text) if text is not None else None

    async def _read_wanted(self, traffic: _Traffic) -> None:
        """Asks the store for everything that is wanted by now, until nothing is: one statement at a time."""
        try:
            while traffic.reads:
                await asyncio.sleep(0)  # those who ask in the same moment come along
                wanted, traffic.reads = traffic.reads, {}
                found: Mapping[tuple[str, str, int], str] = {}
                try:
                    found = await self._blocking("get", list(wanted)) or {}
                finally:
                    for key, future in wanted.items():
                        if not future.done():
                            future.set_result(found.get(key))
        finally:
            traffic.reading = None

    async def _write(self, traffic: _Traffic) -> None:
        now = asyncio.get_running_loop().time
        try:
            while self._unstored:
                await asyncio.sleep(0)
                began = now()
                batch, self._unstored = self._unstored, {}
                if await self._blocking("put", batch) is None and self._failing:
                    # Tried again with the next verdict; the memory has them anyway.
                    self._unstored = {**batch, **self._unstored}
                    while len(self._unstored) > _UNSTORED_MOST:
                        del self._unstored[next(iter(self._unstored))]
                    return
                with contextlib.suppress(asyncio.TimeoutError):  # the usual end of a rest
                    await asyncio.wait_for(traffic.hurry.wait(), min(_LONGEST_REST_S, _REST * (now() - began)))
        finally:
            traffic.writing = None

    async def _blocking(self, method: str, argument: Any) -> Any:
        """The store's answer, None where it is away: verdicts can be had without it, and cost a call then."""
        try:
            answer = await asyncio.to_thread(getattr(self._store, method), argument)
        except TraceJudgeError as error:
            if not self._failing:
                _LOG.warning("the stored verdicts cannot be used at present: %r", str(error))
            self._failing = True
            return None
        self._failing = False
        return answer
