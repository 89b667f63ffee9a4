"""Replays traces: judges them again under a run id of their own, beside the live scores, which never change.

Questions are put to the panel some at a time, and each verdict is stored when it comes: a slow one delays no other, and
a process that is killed loses what was in flight. Judges that call nothing get a whole page at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import chain
from typing import Final

from tracejudge.clock import Clock
from tracejudge.judging import JudgeTask, Panel, PanelResult
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.replay.manifest import OpenRun, finished, with_cursor
from tracejudge.replay.progress import Behind, OpenPage, Progress
from tracejudge.replay.report import ReplayReport, report_of
from tracejudge.replay.sources import Page, Source
from tracejudge.replay.writer import Answers, Writer
from tracejudge.scores import Decision, TraceKey
from tracejudge.store import Known, Store
from tracejudge_sdk.trace import Trace

LOOK_AGAIN_S: Final = 10.0
_TOGETHER: Final = 50  # questions put at once: putting one alone costs an eighth of a quick judge's whole answer
_LEAST_OUT: Final = 100
_MOST_UNSTORED: Final = 8192  # answers that wait for their insert: bounds the memory while the store is slow
_SAVE_EVERY_S: Final = 5.0  # a resumed run looks up again at most the pages of so many seconds
_TELL_EVERY_S: Final = 0.2


async def replay(
    store: Store,
    panel: Panel,
    *,
    specs: Collection[JudgeSpec],
    source: Source,
    run: OpenRun,
    clock: Clock,
    progress: Callable[[ReplayReport], None] = lambda _: None,
    live_lags: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> ReplayReport:
    """Judges every trace of the source under `specs` and stores scores, ledger and calls under the run's id.

    Tail sampling does not apply: every trace is judged, with the SDK's head probability as its inclusion probability.
    What the run has settled is never judged again, so a run that was killed goes on where it was. It stops early when a
    judge is gone, which the report says in `gone`, and when a cap is reached, with the traces cut off as over_budget.
    `live_lags` is called (it may block) before each page: while it is true, the replay pauses, and calls it again every
    `LOOK_AGAIN_S` seconds.
    """
    replaying = _Replaying(store, panel, specs=specs, run=run, clock=clock, progress=progress)
    report = await replaying.through(source, live_lags=live_lags, sleep=sleep)
    manifest = await asyncio.to_thread(finished, run.stored, report, replaying.behind, store=store, now=clock.now())
    await asyncio.to_thread(store.runs.save, manifest)
    return report


class _Replaying:
    """One attempt at a replay run."""

    def __init__(
        self,
        store: Store,
        panel: Panel,
        *,
        specs: Collection[JudgeSpec],
        run: OpenRun,
        clock: Clock,
        progress: Callable[[ReplayReport], None],
    ) -> None:
        self._store = store
        self._panel = panel
        self._judge_ids = {spec.name: spec.judge_id() for spec in specs}
        self._all = frozenset(self._judge_ids)
        self._instant = panel.instant
        self._singly = {name: frozenset([name]) for name in sorted(self._all - self._instant)}
        self._run = run
        self._clock = clock
        self._tell = progress
        self._writer = Writer(store, stored=self._stored)
        # Enough that the limiter never runs out of questions. A kill does not cost this many verdicts: only those of
        # calls under way, and those answered since the last insert began.
        self._most_asked = max(_LEAST_OUT, 4 * sum(spec.concurrency for spec in specs if spec.calls_model))
        self._asked = 0  # (trace, judge) pairs that are being judged
        self._held = 0  # pairs that are being judged or wait to be stored
        self._room = asyncio.Event()
        self._failed: BaseException | None = None
        self._out: set[asyncio.Task[None]] = set()
        behind = run.behind
        self._progress = Progress(behind)
        self._stopped = False
        self._told_at = clock.monotonic()
        self.report = ReplayReport(  # what became of the traces so far
            run_id=run.run_id,
            traces=behind.traces,
            texts_expired=behind.texts_expired,
            already_settled=behind.settled,
            already_decided=behind.decided,
        )
        self._saved_at = clock.monotonic()

    @property
    def behind(self) -> Behind:
        """The counts up to the position reached."""
        return self._progress.behind

    async def through(
        self, source: Source, *, live_lags: Callable[[], bool], sleep: Callable[[float], Awaitable[None]]
    ) -> ReplayReport:
        """Judges the pages after the run's position."""
        pages = source.pages(self._progress.behind.place)
        # One thread for all pages: every thread keeps the memory that the largest block it read has taken.
        reader = ThreadPoolExecutor(1, "replay-read")
        ahead = _next_of(pages, reader)
        try:
            await asyncio.to_thread(self._store.runs.save, self._run.stored)  # before anything is asked
            while (page := await ahead) is not None:
                ahead = _next_of(pages, reader)
                while await asyncio.to_thread(live_lags):
                    await sleep(LOOK_AGAIN_S)
                if not await self._ask(page):
                    break
            else:
                await self._all_answered()
                if not self._stopped:
                    self.report += ReplayReport(run_id=self._run.run_id, complete=True)
            await self._all_answered()
        finally:  # cancelled, or the store is away: no judge is asked on behalf of a replay that has ended
            await asyncio.wait({ahead})
            reader.shutdown(wait=False)
            for task in self._out:
                task.cancel()
            await asyncio.gather(*self._out, return_exceptions=True)
            await self._writer.flush()  # what was answered by then is paid for
        self._tell(self.report)
        return self.report

    async def _ask(self, page: Page) -> bool:
        """Puts the questions of a page; False when the run has to stop."""
        # A run that is new has settled nothing.
        known: Mapping[TraceKey, Known] = {}
        if self._run.resumed:
            times = {_key(trace): trace.event_time for trace in page.traces}
            known = await asyncio.to_thread(self._store.scores.lookup, times, self._run.run_id)
        counts = Behind(traces=len(page.traces) + page.expired, texts_expired=page.expired)
        at_once: list[JudgeTask] = []
        single: dict[str, deque[JudgeTask]] = {name: deque() for name in self._singly}
        for trace in page.traces:
            names = self._unsettled(known[_key(trace)]) if known else self._all
            counts.settled += len(self._all) - len(names)
            if self._instant and (instant := names & self._instant):
                at_once.append(_task(trace, instant))
            for name, alone in self._singly.items():
                if name in names:
                    single[name].append(_task(trace, alone))
        self.report += ReplayReport(
            run_id=self._run.run_id,
            traces=counts.traces,
            texts_expired=counts.texts_expired,
            already_settled=counts.settled,
        )
        opened = OpenPage(place=page.place, counts=counts)
        self._progress.begin(opened)
        if at_once and not await self._put(at_once, opened):
            self._give_back([*at_once, *chain.from_iterable(single.values())], known)
            return False
        while any(single.values()):
            for left in single.values():
                bunch = [left.popleft() for _ in range(min(len(left), _TOGETHER))]
                if bunch and not await self._put(bunch, opened):
                    self._give_back([*bunch, *chain.from_iterable(single.values())], known)
                    return False
        await self._settle({opened: 1})
        return not self._stopped

    def _give_back(self, unasked: Iterable[JudgeTask], known: Mapping[TraceKey, Known]) -> None:
        """Takes the traces of unasked tasks out of the report: some of their judges were not asked."""
        keys = {_key(task.trace) for task in unasked}
        settled = sum(len(self._all) - len(self._unsettled(known[key])) for key in keys) if known else 0
        self.report += ReplayReport(run_id=self._run.run_id, traces=-len(keys), already_settled=-settled)

    def _unsettled(self, known: Known) -> frozenset[str]:
        return frozenset(name for name, judge_id in self._judge_ids.items() if judge_id not in known.settled)

    async def _put(self, tasks: Sequence[JudgeTask], page: OpenPage) -> bool:
        """Puts questions, for one judge that calls a model or for all that do not, as soon as there is room.

        False, with nothing put, when the run has to stop.
        """
        count = sum(len(task.judge_names) for task in tasks)
        while not self._has_room(count):
            self._room.clear()
            await self._room.wait()
        if self._failed is not None:
            raise self._failed
        if self._stopped:
            return False  # the page is never done, and the place stays before it
        page.left += count
        self._asked += count
        self._held += count
        task = asyncio.create_task(self._judge(tasks, count, page))
        self._out.add(task)
        task.add_done_callback(self._ended)
        return True

    def _has_room(self, count: int) -> bool:
        """Whether `count` more pairs may be asked and held; more than the bounds allow go once nothing else is held."""
        may_ask = not self._asked or self._asked + count <= self._most_asked
        return may_ask and (not self._held or self._held + count <= self._most_asked + _MOST_UNSTORED)

    async def _judge(self, tasks: Sequence[JudgeTask], count: int, page: OpenPage) -> None:
        left = count
        put, enough = self._writer.put, self._most_asked - _TOGETHER

        def judged(_: int, result: PanelResult) -> None:
            nonlocal left
            left -= 1
            self._asked -= 1
            put(page, result)
            if self._asked <= enough:
                self._room.set()
            if result.gone or (result.ledger and result.ledger[0].decision is Decision.OVER_BUDGET):
                # A cap that is reached stays reached: going on would only add an over_budget row for every trace left.
                self._stopped = True

        try:
            await self._panel.evaluate_each(tasks, judged, run_id=self._run.run_id)
        finally:  # cancelled, or the panel raised: the unanswered ones get no answer
            self._asked -= left
            self._held -= left

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._out.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed = self._failed or error
        self._room.set()

    def _told(self) -> None:
        now = self._clock.monotonic()
        if now - self._told_at >= _TELL_EVERY_S:
            self._told_at = now
            self._tell(self.report)

    async def _stored(self, answers: Answers, error: BaseException | None) -> None:
        """Takes answers that are stored, or that could not be stored because of `error`."""
        self._held -= answers.count
        self._failed = self._failed or error
        self._room.set()
        if error is not None:
            return
        self.report += report_of(
            self._run.run_id,
            scores=answers.scores,
            ledger=answers.ledger,
            calls=answers.calls,
            gone=answers.gone,
        )
        for page, answered in answers.pages.items():
            page.take(answered)
        self._told()
        try:
            await self._settle({page: answered.questions for page, answered in answers.pages.items()})
        except Exception as failure:  # noqa: BLE001 - raised where the run is waited for
            self._failed = self._failed or failure

    async def _all_answered(self) -> None:
        while self._asked:
            self._room.clear()
            await self._room.wait()
        if self._out:
            await asyncio.wait(self._out)
        await self._writer.flush()
        if self._failed is not None:
            raise self._failed

    async def _settle(self, answered: Mapping[OpenPage, int]) -> None:
        moved = [self._progress.settle(page, count) for page, count in answered.items()]
        now = self._clock.monotonic()
        if any(moved) and now - self._saved_at >= _SAVE_EVERY_S:
            self._saved_at = now
            await asyncio.to_thread(self._store.runs.save, with_cursor(self._run.stored, self._progress.behind))


def _next_of(pages: Iterator[Page], reader: ThreadPoolExecutor) -> asyncio.Future[Page | None]:
    return asyncio.get_running_loop().run_in_executor(reader, next, pages, None)


def _task(trace: Trace, names: frozenset[str]) -> JudgeTask:
    return JudgeTask(
        trace=trace,
        judge_names=names,
        inclusion_probability=_chances(names, trace.head_probability),
        event_time=trace.event_time,
    )


@lru_cache(256)
def _chances(names: frozenset[str], probability: float) -> Mapping[str, float]:
    return dict.fromkeys(names, probability)


def _key(trace: Trace) -> TraceKey:
    return TraceKey(trace.environment, trace.app, trace.trace_id)
