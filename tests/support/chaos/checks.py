"""What must be true at the end of a chaos run, each looked at in the store and said in words where it is not."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tests.support.chaos.stream import FAITHFUL, LEXICAL, LEXICAL_RATE, Fate, Message, Stream
from tracejudge.judging import JudgeSpec
from tracejudge.judging.registry import evaluator_for
from tracejudge.reports import read_rates
from tracejudge.scores import Decision
from tracejudge.store import RateQuery, ScoreFilter, Store
from tracejudge.testing import make_trace

_SHOWN: Final = 5  # examples of one fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Verdicts of the model that were bought, against what had to be."""

    verdicts: int  # distinct (trace, judge) that got one
    bought: int
    in_flight_at_kills: int  # at each kill and pause: asked about and not settled
    in_flight_when_lost: int  # records handed out and not committed of partitions that were revoked or lost
    late: int  # answers to callers that had stopped waiting: no verdict was had of them

    @property
    def allowed(self) -> int:
        return self.verdicts + self.in_flight_at_kills + self.in_flight_when_lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`faults`: what is wrong, in words; empty when nothing is."""

    faults: tuple[str, ...]
    fates: Mapping[str, Counter[Fate]]  # by judge
    spent: Spent


def look(
    stream: Stream,
    sent: Sequence[Message],
    *,
    store: Store,
    bought: Mapping[int, int],
    late: int,
    in_flight: Sequence[int],
    lost: Mapping[str, int],
) -> Findings:
    """Compares the store with the oracle."""
    numbers = sorted({one.number for one in sent if one.number is not None})
    expected = _expected(stream, numbers)
    found = _found(store)
    spent = Spent(
        verdicts=len(bought),
        bought=sum(bought.values()),
        in_flight_at_kills=sum(in_flight),
        in_flight_when_lost=lost.get("revoked", 0) + lost.get("lost", 0),
        late=late,
    )
    faults = [
        *_traces(stream, numbers, store),
        *_fates(expected, found),
        *_equation(stream, numbers, expected, store),
        *_dead_letters(sent, store),
        *_rates(stream, numbers, expected, store),
    ]
    if spent.bought > spent.allowed:
        faults.append(f"{spent.bought} verdicts were bought, above {spent.allowed}: settled ones were bought again")
    fates: dict[str, Counter[Fate]] = {FAITHFUL: Counter(), LEXICAL: Counter()}
    for (_, judge), these in found.items():
        fates[judge][these[0] if len(these) == 1 else "several"] += 1
    return Findings(faults=tuple(faults), fates=fates, spent=spent)


def _expected(stream: Stream, numbers: Sequence[int]) -> dict[tuple[str, str], Fate]:
    lexical = asyncio.run(_lexical(stream, numbers))
    return {
        (stream.trace_id(number), judge): fate
        for number in numbers
        for judge, fate in stream.expected(number, lexical=lexical[number]).items()
    }


async def _lexical(stream: Stream, numbers: Sequence[int]) -> dict[int, Fate]:
    """What the heuristic itself says about the texts, asked without any pipeline."""
    evaluator = evaluator_for(JudgeSpec(name=LEXICAL, kind="lexical"))
    fates: dict[int, Fate] = {}
    for number in numbers:
        trace = stream.trace(number)
        texts = [node.text or "" for node in trace.source_nodes]
        said = await evaluator.aevaluate(query=trace.query, response=trace.response, contexts=texts)
        fates[number] = "failed" if said.passing is False else "passed"
    return fates


def _found(store: Store) -> dict[tuple[str, str], list[Fate]]:
    """Every fate of every (trace, judge): scores, and the ledger's rows of those that have none."""
    found: dict[tuple[str, str], list[Fate]] = {}
    for page in store.scores.stream(ScoreFilter()):
        for score in page:
            fate = score.outcome.value + ("" if score.outcome.settled else f": {score.reason}")
            found.setdefault((score.trace_id, score.judge_name), []).append(fate)
    scored = set(found)
    for trace_id, judge, decision in store.query(
        "SELECT trace_id, toString(judge_name), toString(decision) FROM ledger FINAL WHERE run_id = 'live'"
    ):
        if (trace_id, judge) not in scored:
            found.setdefault((trace_id, judge), []).append(decision)
    return found


def _traces(stream: Stream, numbers: Sequence[int], store: Store) -> Iterator[str]:
    rows = store.query("SELECT trace_id, count() FROM traces FINAL GROUP BY trace_id")
    stored = {str(row[0]): int(row[1]) for row in rows}
    wanted = {stream.trace_id(number) for number in numbers}
    if missing := sorted(wanted - stored.keys()):
        yield f"{len(missing)} traces are not stored, such as {missing[:_SHOWN]}"
    if strange := sorted(stored.keys() - wanted):
        yield f"{len(strange)} traces are stored that were never sent, such as {strange[:_SHOWN]}"
    if twice := sorted(key for key, count in stored.items() if count > 1):
        yield f"{len(twice)} traces are stored more than once, such as {twice[:_SHOWN]}"


def _fates(expected: Mapping[tuple[str, str], Fate], found: Mapping[tuple[str, str], list[Fate]]) -> Iterator[str]:
    wrong: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for key in expected.keys() | found.keys():
        wanted, these = expected.get(key, "nothing"), found.get(key, ["nothing"])
        if these != [wanted]:
            kind = f"{key[1]}: {' and '.join(sorted(these))} instead of {wanted}"
            wrong[kind] += 1
            examples[kind] = min(examples.get(kind, key[0]), key[0])
    for kind, count in wrong.most_common():
        yield f"{count} times {kind}, such as {examples[kind]}"


def _window(stream: Stream) -> tuple[datetime, datetime]:
    start = make_trace(0).event_time.replace(minute=0, second=0, microsecond=0)
    return start, make_trace(stream.traces).event_time + timedelta(hours=1)


def _equation(
    stream: Stream, numbers: Sequence[int], expected: Mapping[tuple[str, str], Fate], store: Store
) -> Iterator[str]:
    """The ledger's own equation: it balances, nothing is undecided, and its sums are the oracle's."""
    lines = {line.judge_name: line for line in store.ledger.equation(*_window(stream))}
    for judge in (FAITHFUL, LEXICAL):
        line = lines.get(judge)
        if line is None:
            yield f"the ledger has no line for {judge}"
            continue
        wanted = Counter(fate.partition(":")[0] for (_, name), fate in expected.items() if name == judge)
        sums = Counter({"passed": line.passed, "failed": line.failed, "invalid": line.invalid})
        sums.update({decision.value: count for decision, count in line.decisions.items()})
        undecided = line.decisions.get(Decision.UNDECIDED, 0)
        if line.unaccounted or undecided:
            yield f"ledger of {judge}: {line.unaccounted} unaccounted, {undecided} undecided"
        if line.traces != len(numbers) or +sums != wanted:
            yield f"ledger of {judge}: {line.traces} traces as {dict(+sums)}, expected {len(numbers)} as {dict(wanted)}"


def _dead_letters(sent: Sequence[Message], store: Store) -> Iterator[str]:
    wanted = Counter(one.poison for one in sent if one.number is None)
    found = Counter(store.dead_letters.counts())
    if found != wanted:
        yield f"dead letters {dict(found)}, expected {dict(wanted)}"


def _rates(
    stream: Stream, numbers: Sequence[int], expected: Mapping[tuple[str, str], Fate], store: Store
) -> Iterator[str]:
    start, end = _window(stream)
    lines = {line.judge_name: line.rate for line in read_rates(store, RateQuery(start=start, end=end))}
    for judge, share in ((FAITHFUL, 1.0), (LEXICAL, LEXICAL_RATE)):
        fates = Counter(expected[stream.trace_id(number), judge] for number in numbers)
        wanted = fates["passed"] / (fates["passed"] + fates["failed"])
        rate = lines.get(judge)
        if rate is None or rate.estimate is None or not math.isclose(rate.estimate, wanted, rel_tol=1e-9):
            yield f"pass rate of {judge}: {rate and rate.estimate}, expected {wanted}"
        elif not math.isclose(rate.represents, (fates["passed"] + fates["failed"]) / share, rel_tol=1e-9):
            yield f"{judge}: the scores stand for {rate.represents:g} traces instead of their weights' sum"
