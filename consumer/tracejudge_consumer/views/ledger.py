"""The ledger in words and tables: an equation for each judge, and the dead letters beside it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from tracejudge.counted import counted
from tracejudge.scores import Decision
from tracejudge.store import DeadCount, LedgerLine
from tracejudge_consumer.terminal.fitting import FittedTable
from tracejudge_consumer.terminal.rendering import harmless, ident, instant, table


def of_hour(line: LedgerLine) -> str:
    """Of which hour the line is, where it is of one."""
    return "" if line.hour is None else f" in the hour from {instant(line.hour)}"


def label(line: LedgerLine) -> str:
    """The judge, marked where it is a heuristic."""
    return ident(line.judge_name) + (" (heuristic)" if line.heuristic else "")


def equation(line: LedgerLine, *, rest: str = "UNACCOUNTED") -> str:
    """The line as a sum in words that adds up; `rest` says what traces without verdict or reason are."""
    terms = [f"{line.passed + line.failed} scored", f"{line.invalid} invalid"]
    terms += [
        f"{line.decisions.get(decision, 0)} {decision.value.replace('_', ' ')}"
        for decision in Decision
        if line.decisions.get(decision, 0) or decision in (Decision.NOT_APPLICABLE, Decision.SAMPLED_OUT)
    ]
    if line.unaccounted:
        terms.append(f"{line.unaccounted} {rest}")
    return f"{counted(line.traces, 'trace')} = " + " + ".join(terms)


def dead_letters(counts: Mapping[str, int]) -> str:
    """How many records could not be read, by reason or source."""
    total = sum(counts.values())
    if not total:
        return "0 dead letters"
    parts = ", ".join(f"{count} {harmless(name)}" for name, count in sorted(counts.items()))
    return f"{counted(total, 'dead letter')} ({parts})"


def dead_table(places: Sequence[DeadCount], *, hourly: bool) -> FittedTable:
    """One row per partition (and hour) in which something could not be read."""
    counts: dict[tuple[str, str, int], Counter[str]] = defaultdict(Counter)
    for place in places:
        hour = instant(place.hour)[:16] if hourly else ""
        counts[hour, place.source, place.partition][place.reason] += place.count
    columns = [("hour (UTC)", "left")] if hourly else []
    columns += [("source", "left"), ("partition", "right"), ("dead letters", "right"), ("reasons", "left")]
    rows = []
    for (hour, source, partition), reasons in sorted(counts.items()):
        listed = ", ".join(f"{count} {harmless(reason)}" for reason, count in reasons.most_common())
        cells = [hour] if hourly else []
        rows.append([*cells, ident(source), "–" if partition < 0 else str(partition), str(reasons.total()), listed])
    return table("Dead letters", columns, rows)


def ledger_table(lines: Sequence[LedgerLine], *, rest: str = "unaccounted") -> FittedTable:
    """One row per judge (and hour), a column for every decision that occurs."""
    shown = [decision for decision in Decision if any(line.decisions.get(decision) for line in lines)]
    hourly = any(line.hour is not None for line in lines)
    columns = [("hour (UTC)", "left")] if hourly else []
    columns += [("judge", "left"), ("traces", "right"), ("passed", "right"), ("failed", "right"), ("invalid", "right")]
    columns += [(decision.value.replace("_", " "), "right") for decision in shown] + [(rest, "right")]
    rows = []
    for line in lines:
        cells = [instant(line.hour)[:16]] if hourly else []
        cells += [label(line), *map(str, (line.traces, line.passed, line.failed, line.invalid))]
        cells += [str(line.decisions.get(decision, 0)) for decision in shown] + [str(line.unaccounted)]
        rows.append(cells)
    return table("Ledger", columns, rows)
