"""Every reader of the store beside what the oracle says. A reader returns nothing and raises AssertionError."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from tests.support.store_model.operations import END, JUDGED, JUDGES, START, TRACES
from tests.support.store_model.oracle import Oracle, everyone, sums, worst_order
from tracejudge.scores import LIVE_RUN, Decision, LedgerRow, Outcome, Score, TraceKey
from tracejudge.store import BucketRow, Cursor, RateQuery, ScoreFilter, Store, TraceFilter
from tracejudge.store.tombstones import Identity

Reader = Callable[[Store, Oracle, random.Random], None]
WINDOW: Final = RateQuery(start=START, end=END, environment=None, group_by=("app", "version"))
SUMS: Final = ("n", "passed", "invalid", "sum_w", "sum_w2", "sum_wx", "sum_w2x", "sum_ws")
LATE: Final = JUDGED + timedelta(days=30)


def rates(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """Pass rates and what they are made of, over the whole time or in steps, sliced."""
    step_s = draw.choice((None, 3600, 7 * 60))
    query = replace(WINDOW, step_s=step_s)

    def by(score: Score) -> Any:
        pane = 0 if step_s is None else int((score.event_time - START).total_seconds()) // step_s
        at = START + timedelta(seconds=pane * (step_s or 0))
        return at, score.judge_id, score.stratum, score.app, score.version

    _same_sums(store.scores.buckets(query), oracle, by)


def minutes(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """The rollup alone, of every JudgeId by itself: equal to the rows once it has been brought up to date."""
    store.minutes.rollup()
    by = lambda score: (START, score.judge_id, score.stratum, score.app, score.version)  # noqa: E731
    expected = sums(oracle.live(), by)
    _close({_key(row): _bucket(row) for row in store.minutes.buckets(WINDOW)}, expected)


def long_windows(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """A window long enough to be answered from the rollup, whatever has been rolled up by now."""
    query = replace(WINDOW, judge="faithfulness", step_s=draw.choice((None, 3600)))
    _, judge_id = JUDGES[2]

    def by(score: Score) -> Any:
        pane = 0 if query.step_s is None else int((score.event_time - START).total_seconds()) // query.step_s
        at = START + timedelta(seconds=pane * (query.step_s or 0))
        return at, score.judge_id, score.stratum, score.app, score.version

    expected = sums([score for score in oracle.live() if score.judge_id == judge_id], by)
    _close({_key(row): _bucket(row) for row in store.scores.buckets(query)}, expected)


def count(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """How many scores and traces there are."""
    assert store.scores.count(ScoreFilter(run_id=None)) == len(oracle.scores)
    assert store.traces.count(TraceFilter()) == len(oracle.traces)


def worst(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """The lowest settled scores."""
    settled = sorted((score for score in oracle.live() if score.outcome.settled), key=worst_order)
    limit = draw.choice((3, 1000))
    _equal(store.scores.worst(ScoreFilter(), limit=limit), settled[:limit])


def export(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """Everything, page by page."""
    order = lambda s: (s.event_time, s.trace_id, s.environment, s.app, s.judge_name, s.judge_id, s.run_id)  # noqa: E731
    pages = store.scores.stream(ScoreFilter(run_id=None), batch=draw.choice((50, 5000)))
    _equal([score for page in pages for score in page], sorted(oracle.scores.values(), key=order))


def trace_export(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """Every trace, page by page."""
    order = lambda s: (s.trace.event_time, s.trace.trace_id, s.trace.environment, s.trace.app)  # noqa: E731
    pages = store.traces.stream(TraceFilter(), batch=draw.choice((25, 500)))
    _equal([stored for page in pages for stored in page], sorted(oracle.traces.values(), key=order))


def alerts(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """What the detectors fold, in their order, page by page."""
    found: list[Score] = []
    cursor: Cursor | None = None
    limit = draw.choice((25, 5000))
    while page := store.scores.since(cursor, until=LATE, limit=limit):
        found += page
        cursor = Cursor(page[-1].judged_at, page[-1].trace_id)
    _equal(found, sorted(oracle.live(), key=lambda score: (score.judged_at, score.trace_id)))


def show(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """Everything about one trace."""
    trace_id = f"t-{draw.randrange(TRACES):06d}"
    _equal(store.traces.get(trace_id), [s for key, s in sorted(oracle.traces.items()) if key.trace_id == trace_id])
    # Verdicts are found through their trace, at its event time.
    scores = [s for s in oracle.scores.values() if s.trace_id == trace_id and _placed(oracle, s)]
    _equal(store.scores.of_trace(trace_id), sorted(scores, key=lambda s: s.judged_at, reverse=True))
    rows = [row for key, row in oracle.decisions.items() if row.trace_id == trace_id and oracle.stands(key)]
    rows = [row for row in rows if _placed(oracle, row)]
    _equal(store.ledger.of_trace(trace_id), sorted(rows, key=lambda r: (r.judge_name, r.run_id, r.decided_at)))
    labels = [label for key, label in sorted(oracle.labels.items()) if key[0].trace_id == trace_id]
    _equal(store.labels.of_trace(trace_id), labels)
    said = [one for key, one in sorted(oracle.feedback.items()) if key[0].trace_id == trace_id]
    _equal(store.feedback.of_trace(trace_id), said)


def ledger(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """The equation: every trace accounted for, per judge."""
    found = {}
    for line in store.ledger.equation(START, END):
        counts = Counter({decision.value: number for decision, number in line.decisions.items()})
        counts += Counter(passed=line.passed, failed=line.failed, invalid=line.invalid, unaccounted=line.unaccounted)
        assert line.traces == counts.total()
        found[line.judge_name] = counts
    assert found == oracle.equation()


def undecided(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """What still waits for a judge: no JudgeId of the name has said or decided anything final."""
    decided = {(score.key, score.event_time, score.judge_name) for score in oracle.live()}
    open_ones = (Decision.UNDECIDED, Decision.INCOMPLETE)
    live = [(key[0], row) for key, row in oracle.decisions.items() if row.run_id == LIVE_RUN]
    decided |= {(key, row.event_time, row.judge_name) for key, row in live if row.decision not in open_ones}
    waiting = [
        row
        for key, row in live
        if row.decision is Decision.UNDECIDED and (key, row.event_time, row.judge_name) not in decided
    ]
    order = lambda row: (row.event_time, row.trace_id, row.judge_name, row.judge_id)  # noqa: E731
    _equal(sorted(store.ledger.undecided(), key=order), sorted(waiting, key=order))


def pairs(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """Traces judged live and in a replay: under a name with several JudgeIds the latest verdict stands."""

    def latest(run_id: str) -> dict[tuple[TraceKey, Any], Score]:
        found: dict[tuple[TraceKey, Any], Score] = {}
        for score in oracle.scores.values():
            if score.run_id == run_id and score.judge_name == "lexical":
                place = (score.key, score.event_time)
                if place not in found or found[place].judged_at < score.judged_at:
                    found[place] = score
        return found

    live, other = latest(LIVE_RUN), latest("try-1")
    found = list(store.scores.pairs("live", "try-1", judge_a="lexical", judge_b="lexical"))
    assert {(pair.a.key, pair.a.event_time) for pair in found} == live.keys() & other.keys()
    for pair in found:
        _equal([pair.a, pair.b], [live[pair.key, pair.a.event_time], other[pair.key, pair.a.event_time]])


def known(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """What the consumer asks before it does anything."""
    keys = sorted(oracle.event_times)
    found = store.lookup(keys)
    assert {key: one.event_time for key, one in found.items()} == oracle.event_times
    for key, one in found.items():
        mine = [s for s in oracle.live() if s.key == key and s.event_time == one.event_time]
        assert one.settled == {score.judge_id for score in mine if score.outcome.settled}
        assert one.invalid == {score.judge_id for score in mine if score.outcome is Outcome.INVALID}


def money(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """Calls are counted once, and what was forgotten has been paid for all the same."""
    spent = store.calls.spent("faithfulness", START)
    assert (spent.calls, spent.usd) == (len(oracle.calls), sum(call.cost_usd or 0 for call in oracle.calls.values()))


def tombstones(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """Who was forgotten, and that nothing of them is in any table."""
    asked = everyone()
    found = store.tombstones.forgotten([Identity(key, value if kind == "user" else None) for kind, value, key in asked])
    for kind, value, key in asked:
        assert (key in found) == ((kind, value) in oracle.forgotten), (kind, value)
    gone = [value for kind, value in sorted(oracle.forgotten) if kind == "trace"]
    for table in ("traces", "trace_index", "scores", "scores_by_judged", "ledger", "labels", "feedback", "calls"):
        rows = store.query(f"SELECT count() FROM {table} WHERE trace_id IN {{gone:Array(String)}}", {"gone": gone})
        assert rows[0][0] == 0, table


def dead_letters(store: Store, oracle: Oracle, draw: random.Random) -> None:
    """Rows that were refused are kept, each once."""
    assert sum(store.dead_letters.counts().values()) == len(oracle.refused)


READERS: Final[dict[str, Reader]] = {
    reader.__name__: reader
    for reader in (
        rates, long_windows, minutes, count, worst, export, trace_export, alerts, show, ledger, undecided, pairs, known,
        money, tombstones, dead_letters,
    )
}  # fmt: skip


def _placed(oracle: Oracle, row: Score | LedgerRow) -> bool:
    return oracle.event_times.get(TraceKey(row.environment, row.app, row.trace_id)) == row.event_time


def _same_sums(rows: list[BucketRow], oracle: Oracle, by: Callable[[Score], Any]) -> None:
    _close({_key(row): _bucket(row) for row in rows}, sums(oracle.counted(), by))


def _key(row: BucketRow) -> Any:
    return row.start, row.judge_id, row.stratum, row.group["app"], row.group["version"]


def _bucket(row: BucketRow) -> tuple[float, ...]:
    return tuple(getattr(row.bucket, name) for name in SUMS)


def _close(found: dict[Any, tuple[float, ...]], expected: dict[Any, tuple[float, ...]]) -> None:
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key] == pytest.approx(values, rel=1e-9, abs=1e-9), key


def _equal(found: list[Any], expected: list[Any]) -> None:
    if found != expected:
        extra = [one for one in found if one not in expected]
        missing = [one for one in expected if one not in found]
        raise AssertionError(
            f"{len(found)} found, {len(expected)} expected; too much: {extra[:2]}; missing: {missing[:2]}"
        )
