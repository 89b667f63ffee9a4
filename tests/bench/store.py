"""What the store costs: `python -m tests.bench.store [--quick] [--json] [--only CASE]`, on the embedded engine.

10 million scores over 30 days, 4 apps, 3 judges; `--quick` takes a fiftieth.
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from tests.bench.frame import Figure, Run, at_least, at_most, main, shown
from tests.bench.store_bed import APPS, DAYS, END, JUDGES, START, Bed, rounds, seconds, without_final
from tracejudge.scores import JudgeId, Score, TraceKey
from tracejudge.store import Cursor, RateQuery, ScoreFilter, TraceFilter, Wanted
from tracejudge.store.rates import raw_buckets
from tracejudge.store.trace_index import KEYS_IN, TraceIndex, key_parameters
from tracejudge.testing import make_score
from tracejudge_consumer.limits import PipelineLimits

DEFAULT_BATCH: Final = PipelineLimits().result_rows
"""Rows that the consumer stores at once under load."""

_NEWEST_ROWS: Final = 13_888  # of 10 million in 30 days, an hour's
HOUR: Final = RateQuery(start=END, end=END + timedelta(hours=1))
MONTH: Final = RateQuery(start=START, end=END, group_by=("app",), step_s=86_400)


def sizes(run: Run) -> tuple[int, int, int]:
    return (20_000, 60_000, 200_000) if run.quick else (1_000_000, 3_000_000, 10_000_000)


@cache
def bed() -> Bed:
    """The one store of this run, grown by the case `growing`."""
    return Bed()


def growing(run: Run) -> Iterator[Figure]:
    """What must not depend on how much is stored, at three sizes of one store."""
    mine = bed()
    store = mine.store
    mine.newest_hour(run.pick(_NEWEST_ROWS, 2_000), batch=2_000)
    cursor = Cursor(END + timedelta(minutes=50), "")
    detectors: list[list[float]] = []
    series: list[list[float]] = []
    one = replace(HOUR, app=APPS[0], judge=JUDGES[0])
    for size in sizes(run):
        mine.grow_scores(size)
        store.optimize("scores_by_judged")
        detectors.append(
            rounds(lambda: store.scores.since(cursor, until=END + timedelta(hours=2), limit=5000), run.pick(15, 5))
        )
        series.append(rounds(lambda: store.scores.buckets(one), run.pick(15, 5)))
    for name, found in (("detectors: rows since the cursor", detectors), ("one series, last hour", series)):
        first = statistics.median(found[0])
        yield shown(f"{name}, at {sizes(run)[0]:,} rows", [1000 * value for value in found[0]], unit="ms")
        for size, times in zip(sizes(run)[1:], found[1:], strict=True):
            yield at_most(f"{name}: {size:,} rows against {sizes(run)[0]:,}", [value / first for value in times], 1.5)
    wide = replace(one, start=END - timedelta(days=7), end=END + timedelta(hours=1))
    day = replace(one, start=END - timedelta(days=1))
    cost = statistics.median(rounds(lambda: raw_buckets(store._connection, store.judges, day), run.pick(9, 3)))
    week = rounds(lambda: raw_buckets(store._connection, store.judges, wide), run.pick(9, 3))
    yield shown("one series: a week of rows against a day", [value / cost for value in week])


def final(run: Run) -> Iterator[Figure]:
    """What counting right costs in the newest hour."""
    mine = bed()
    store = mine.store
    if mine.scores == 0:
        mine.grow_scores(sizes(run)[-1])
        mine.newest_hour(run.pick(_NEWEST_ROWS, 2_000), batch=2_000)
    store.command("SYSTEM STOP MERGES scores")
    mine.newest_hour(run.pick(_NEWEST_ROWS, 2_000), batch=DEFAULT_BATCH)  # delivered again, split another way

    def ratios() -> list[float]:
        found = []
        for _ in range(run.pick(15, 5)):
            right = seconds(lambda: store.scores.buckets(HOUR))
            with without_final("scores"):
                found.append(right / seconds(lambda: store.scores.buckets(HOUR)))
        return found

    ratios()
    yield at_most("last hour, unmerged: FINAL against the same without", ratios(), 2.0)
    store.command("SYSTEM START MERGES scores")
    day = END.strftime("%Y%m%d")
    store.command(f"OPTIMIZE TABLE scores PARTITION {day} FINAL")
    ratios()
    yield at_most("last hour, merged: FINAL against the same without", ratios(), 1.2)


def rollup(run: Run) -> Iterator[Figure]:
    """Long windows from `minutes`, and what keeping it costs."""
    mine = bed()
    store = mine.store
    if mine.scores == 0:
        mine.grow_scores(sizes(run)[-1])
    minutes = [START + timedelta(minutes=number) for number in range(DAYS * 1440)]
    store.minutes.recompute(minutes)
    store.optimize("minutes")
    raw = rounds(lambda: raw_buckets(store._connection, store.judges, MONTH), run.pick(5, 3))
    rolled = rounds(lambda: store.minutes.buckets(MONTH), run.pick(9, 3))
    once = statistics.median(rolled)
    yield shown("a month by app and judge, from the rows", [1000 * value for value in raw], unit="ms")
    goal = 10.0 if not run.quick else 0.0  # of few rows a statement's own cost is most of both
    yield at_least("a month by app and judge: rows FINAL against minutes", [value / once for value in raw], goal)
    # A minute of 100 traces a second by three judges, in the consumer's batches; then the leader's turn.
    per_minute = run.pick(18_000, 3_000)
    found = []
    for number in range(run.pick(5, 2)):
        begin = END + timedelta(days=2, minutes=number)
        batches = [
            [_score(start + index, begin) for index in range(DEFAULT_BATCH)]
            for start in range(0, per_minute, DEFAULT_BATCH)
        ]
        inserting = sum(seconds(lambda batch=batch: store.scores.insert(batch)) for batch in batches)  # type: ignore[misc]
        store.command("INSERT INTO rollup_state VALUES ('minutes', now64(6) - INTERVAL 1 SECOND)")
        found.append(seconds(store.minutes.rollup) / inserting)
    yield at_most(
        "rollup of a minute of 300 scores a second against their inserts", found, 0.10 if not run.quick else 1.0
    )


def inserts(run: Run) -> Iterator[Figure]:
    """What a row costs in batches."""
    store = bed().store
    number = 0

    def per_row(batch: int, times: int) -> list[float]:
        nonlocal number
        found = []
        for _ in range(times):
            scores = [_score(number + index, END + timedelta(days=4)) for index in range(batch)]
            number += batch
            found.append(seconds(lambda: store.scores.insert(scores)) / batch)  # noqa: B023 - called at once
        return found

    per_row(100, 3)
    few = per_row(100, run.pick(60, 10))
    many = per_row(DEFAULT_BATCH, run.pick(60, 10))
    once = statistics.median(few)
    yield shown("a score in batches of 100", [1e6 * value for value in few], unit="us")
    yield at_most(f"a score in batches of {DEFAULT_BATCH} against 100", [value / once for value in many], 0.4)
    large = per_row(5_000, run.pick(9, 2))
    yield shown("a score in batches of 5 000 against 100", [value / once for value in large])


def room(run: Run) -> Iterator[Figure]:
    """Bytes on disk, and against the JSON of the same."""
    mine = bed()
    if mine.scores == 0:
        mine.grow_scores(sizes(run)[-1])
    if mine.traces == 0:
        mine.grow_traces(sizes(run)[-1])
    facts = {table.name: table for table in mine.store.growth().tables}
    scores = next(iter(mine.store.scores.stream(ScoreFilter(), batch=200)))
    as_json = statistics.mean(len(json.dumps(asdict(score), default=str)) for score in scores)
    size = facts["scores"].bytes_per_row + facts["scores_by_judged"].bytes_per_row
    yield shown("bytes on disk of a score, with its place in the order of judging", [size], unit="B")
    yield shown("JSON of a score against it", [as_json / size])
    traces = next(iter(mine.store.traces.stream(TraceFilter(), batch=200)))
    as_json = statistics.mean(len(one.trace.model_dump_json()) for one in traces)
    size = facts["traces"].bytes_per_row + facts["trace_index"].bytes_per_row
    yield shown("bytes on disk of a trace without passages, with its indexes", [size], unit="B")
    yield shown("JSON of a trace against it", [as_json / size])


def find(run: Run) -> Iterator[Figure]:
    """One answer among all, with nothing in memory."""
    mine = bed()
    total = sizes(run)[-1]
    if mine.traces == 0:
        mine.grow_traces(total)
    finder = mine.store.finder
    for name, wanted in (
        ("by user", Wanted(where=TraceFilter(user_id="u4711"))),
        ("by word", Wanted(words=("w4711",))),
        ("by two words", Wanted(words=("w4711", "w17"))),
    ):
        found = []
        for _ in range(run.pick(5, 2)):
            mine.cold()
            found.append(seconds(lambda wanted=wanted: finder.find(wanted, limit=20)))  # type: ignore[misc]
        yield at_most(f"find {name} among {total:,} traces, cold", found, 2.0, unit="s")


def index(run: Run) -> Iterator[Figure]:
    """A batch of new traces finds its fixed event times: ids by chance, as tracing makes them, and ids in time's order,
    as our SDK does."""
    stored, batch = run.pick(2_000_000, 200_000), 1_000
    store = bed().store
    places = TraceIndex(store._connection)
    whole_keys = f"SELECT environment, app, trace_id, event_time FROM trace_index FINAL WHERE {KEYS_IN}"
    ratios, times = [], {}
    for kind, made in (
        ("by chance", "lower(hex(sipHash128(number)))"),
        ("in order", "concat('0190', leftPad(lower(hex(number)), 28, '0'))"),
    ):
        store.command("TRUNCATE TABLE trace_index")
        for part in range(20):
            store.command(
                "INSERT INTO trace_index (environment, app, trace_id, event_time) "
                f"SELECT 'production', 'shop', {made}, "
                f"toDateTime64('2026-01-01 00:00:00', 3, 'UTC') + number / 100 "
                f"FROM numbers({part * stored // 20}, {stored // 20})"
            )
        found = []
        for turn in range(run.pick(9, 3)):
            ids = store.query(f"SELECT {made} FROM numbers({stored + turn * batch}, {batch})")
            wanted = {TraceKey("production", "shop", row[0]): 1_770_000_000_000 for row in ids}
            places.fix(wanted)  # what is new is there, and a second time costs the same
            found.append(seconds(lambda: places.find(list(wanted))))  # noqa: B023 - called at once
            if kind == "by chance":
                parameters = key_parameters(wanted)
                ratios.append(found[-1] / seconds(lambda: store.query(whole_keys, parameters)))  # noqa: B023
        times[kind] = found
    for kind, found in times.items():
        yield shown(f"{batch:,} new ids {kind} among {stored:,}", [1000 * value for value in found], unit="ms")
    yield at_most(
        "ids by chance: by their own column against whole keys with FINAL", ratios, 0.5 if not run.quick else 1.0
    )


def verdicts(run: Run) -> Iterator[Figure]:
    """Fifty verdicts looked up, as a batch of questions does, in a cache of ten thousand and in a large one."""
    small, large = 10_000, run.pick(1_000_000, 100_000)
    store = bed().store
    took: dict[int, dict[str, list[float]]] = {}
    begin = 0
    for size in (small, large):
        parts = 20
        for part in range(parts):
            first, end = (begin + (size - begin) * k // parts for k in (part, part + 1))
            store.command(
                "INSERT INTO cached_verdicts (content_hash, judge_id, verdict) "
                "SELECT lower(hex(SHA256(toString(number)))), 'faithful@0123456789ab', "
                f"randomPrintableASCII(300) FROM numbers({first}, {end - first})"
            )
        begin = size
        chosen = random.Random(7).sample(range(size), 50)
        held = [_content(str(number)) for number in chosen]
        new = [_content(f"never seen {number}") for number in chosen]
        assert len(store.verdict_cache.get(held)) == 50
        took[size] = {
            name: rounds(lambda keys=keys: store.verdict_cache.get(keys), run.pick(15, 5))  # type: ignore[misc]
            for name, keys in (("held", held), ("new", new))
        }
    for name in ("held", "new"):
        first_s = statistics.median(took[small][name])
        yield shown(f"50 verdicts, {name}, of {small:,}", [1000 * value for value in took[small][name]], unit="ms")
        ratios = [value / first_s for value in took[large][name]]
        yield at_most(f"50 verdicts, {name}: of {large:,} against of {small:,}", ratios, 5.0)


def _content(text: str) -> tuple[str, str, int]:
    return hashlib.sha256(text.encode()).hexdigest(), "faithful@0123456789ab", 0


def _score(number: int, begin: datetime) -> Score:
    """One of a minute's traffic: a trace after the other, each by three judges."""
    judge = JUDGES[number % 3]
    at = begin + timedelta(milliseconds=number // 3 % 60_000)
    return replace(
        make_score(0, judge_name=judge, judge_id=JudgeId(f"{judge}@0123456789ab")),
        trace_id=f"0190{number // 3:028x}",
        event_time=at,
        judged_at=at + timedelta(seconds=20),
        feedback="The answer is supported by the passage.",
    )


CASES = {
    "growing": growing,
    "final": final,
    "rollup": rollup,
    "inserts": inserts,
    "room": room,
    "find": find,
    "index": index,
    "verdicts": verdicts,
}

if __name__ == "__main__":
    sys.exit(main("store", CASES))
