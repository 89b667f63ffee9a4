"""What judges said, made durable: the rows of many traces in one insert, as soon as they are there.

A verdict is bought with money, so it is stored when it comes and not when its neighbours have come too. Inserts of
single rows would make the store merge all day, so whatever comes while an insert is on its way, or within a short
interval, goes together. Money first: a budget must not forget calls that were made. Scores last, they settle the trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple, Protocol, TypeVar

from tracejudge.clock import Clock
from tracejudge.judging import PanelResult
from tracejudge.store import Inserted
from tracejudge_consumer.stages.checkpoints import Checkpoint
from tracejudge_consumer.stages.needs import PipelineStore
from tracejudge_consumer.stages.store_calls import StoreCalls
from tracejudge_consumer.watching.metrics import Metrics

_LOG = logging.getLogger(__name__)
_Row = TypeVar("_Row")
_NONE: Final[Mapping[str, int]] = {}


class Receiver(Protocol):
    """Waits for results to be stored; called once for each result, on the loop."""

    def stored(self, places: Sequence[int], results: Sequence[PanelResult], refused: Mapping[str, int]) -> None:
        """The store has these results, except for `refused` rows, counted by reason.

        `places` holds the `place` that each result was handed in with.
        """
        ...

    def failed(self, error: BaseException) -> None:
        """Some results will never be stored, or `stored` raised `error`: a fault of this program or of the store's
        schema."""
        ...


class _Waiting(NamedTuple):
    result: PanelResult
    receiver: Receiver
    place: int


class _SingleReceiver:
    """Waits for one result."""

    def __init__(self) -> None:
        self.refused: asyncio.Future[Mapping[str, int]] = asyncio.get_running_loop().create_future()

    def stored(self, places: Sequence[int], results: Sequence[PanelResult], refused: Mapping[str, int]) -> None:
        if not self.refused.done():
            self.refused.set_result(refused)

    def failed(self, error: BaseException) -> None:
        if not self.refused.done():
            self.refused.set_exception(error)


class ResultWriter:
    """Stores results in the order calls, ledger, scores. For one event loop; one insert of each kind at a time."""

    def __init__(
        self,
        *,
        store: PipelineStore,
        calls: StoreCalls,
        metrics: Metrics,
        clock: Clock,
        checkpoint: Checkpoint,
        interval_s: float,
        most_rows: int,
    ) -> None:
        """`interval_s`: how long results gather between two inserts; `most_rows` rows are inserted without waiting."""
        self._store = store
        self._calls = calls
        self._metrics = metrics
        self._clock = clock
        self._checkpoint = checkpoint
        self._interval_s = interval_s
        self._most_rows = most_rows
        self._waiting: list[_Waiting] = []
        self._rows = 0
        self._began: float | None = None
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def write(self, result: PanelResult) -> Mapping[str, int]:
        """Returns when the result is stored: how many of its rows the store refused, by reason.

        Waits while the store is away. Raises what shows a fault of this program or of the store's schema.
        """
        receiver = _SingleReceiver()
        self.put(result, receiver)
        return await receiver.refused

    def put(self, result: PanelResult, receiver: Receiver, place: int = 0) -> None:
        """Hands in a result and returns at once; `receiver` is called when it is stored, with this `place`."""
        rows = len(result.calls) + len(result.ledger) + len(result.scores)
        if not rows:
            receiver.stored((place,), (result,), _NONE)
            return
        self._waiting.append(_Waiting(result, receiver, place))
        self._rows += rows
        if self._rows >= self._most_rows:
            self._full.set()
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        batch: list[_Waiting] = []
        try:
            while self._waiting:
                await self._gather()
                batch, self._waiting, self._rows = self._waiting, [], 0
                self._full.clear()
                try:
                    refused = await self._insert(batch)
                except Exception as error:  # noqa: BLE001 - its receivers raise it; the next batch may be stored
                    _fail(batch, error)
                else:
                    _tell(batch, refused)
                batch = []
        except BaseException as error:  # cancelled: no receiver may wait for a result that will never be stored
            left, self._waiting, self._rows = [*batch, *self._waiting], [], 0
            _fail(left, error)
            raise
        finally:
            self._task = None

    async def _gather(self) -> None:
        now = self._clock.monotonic()
        left_s = 0.0 if self._began is None else self._began + self._interval_s - now
        if left_s > 0 and self._rows < self._most_rows:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._full.wait(), left_s)
        self._began = self._clock.monotonic()

    async def _insert(self, batch: Sequence[_Waiting]) -> dict[int, Counter[str]]:
        """The number of refused rows by index in `batch` and by reason."""
        self._checkpoint("judged")
        refused: dict[int, Counter[str]] = defaultdict(Counter)
        results = [one.result for one in batch]
        calls = [(number, row) for number, one in enumerate(results) for row in one.calls]
        ledger = [(number, row) for number, one in enumerate(results) for row in one.ledger]
        scores = [(number, row) for number, one in enumerate(results) for row in one.scores]
        await self._rows_of(calls, self._store.calls.insert, refused)
        await self._rows_of(ledger, self._store.ledger.insert, refused)
        await self._rows_of(scores, self._store.scores.insert, refused)
        self._metrics.scored([row for _, row in scores], [row for _, row in ledger], [row for _, row in calls])
        self._metrics.served(one.served for one in results)
        self._checkpoint("results_stored")
        return refused

    async def _rows_of(
        self,
        rows: Sequence[tuple[int, _Row]],
        insert: Callable[[Sequence[_Row]], Inserted],
        refused: dict[int, Counter[str]],
    ) -> None:
        if not rows:
            return
        values = [row for _, row in rows]
        inserted = await self._calls(lambda: insert(values))
        for row in inserted.rejected:
            _LOG.error("the store refused a row (%s): %s", row.reason, row.detail)
            refused[rows[row.index][0]][f"store_{row.reason}"] += 1


def _fail(batch: Sequence[_Waiting], error: BaseException) -> None:
    for one in batch:
        one.receiver.failed(error)


def _tell(batch: Sequence[_Waiting], refused: Mapping[int, Counter[str]]) -> None:
    """Calls each receiver with its results; `refused` counts refused rows by index in `batch`.

    Results of one receiver mostly follow one another, so grouping neighbours makes few calls.
    """
    begin = 0
    for receiver, some in groupby(batch, _RECEIVER):
        mine = list(some)
        end = begin + len(mine)
        not_taken: Counter[str] = Counter()
        for number in refused:
            if begin <= number < end:
                not_taken.update(refused[number])
        try:
            receiver.stored([one.place for one in mine], [one.result for one in mine], not_taken or _NONE)
        except Exception as error:  # noqa: BLE001 - this receiver's fault: the others are called all the same
            receiver.failed(error)
        begin = end


_RECEIVER: Final = attrgetter("receiver")
