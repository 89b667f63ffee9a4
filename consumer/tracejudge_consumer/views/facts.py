"""The numbers shown beside a pass rate: traffic and latency, the cost of judging, and the change between windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tracejudge.reports import RateLine, judge_labels
from tracejudge.scores import JudgeId
from tracejudge.store import EffortRow, Percentiles, TrafficRow
from tracejudge_consumer.terminal.fitting import FittedTable
from tracejudge_consumer.terminal.rendering import ident, instant, money, one_line, percent, table


def facts_tables(
    lines: Sequence[RateLine], served: Sequence[TrafficRow], effort: Sequence[EffortRow], *, group_by: Sequence[str]
) -> Iterator[FittedTable]:
    """Traffic, effort, and (where windows follow each other) change."""
    slices = [(field, "left") for field in group_by]
    columns = [("window (UTC)", "left"), *slices, ("traces", "right"), ("errors", "right"), ("incomplete", "right")]
    columns += [("latency p50", "right"), ("p95", "right"), ("p99 ms", "right")]
    yield table(
        "Traffic",
        columns,
        [
            [
                instant(row.start)[:16],
                *(one_line(row.group.get(field, ""), limit=30) or "–" for field in group_by),
                str(row.traces),
                str(row.errors),
                str(row.incomplete),
                *_ms(row.latency_ms),
            ]
            for row in served
        ],
    )
    columns = [("window (UTC)", "left"), ("judge", "left"), *slices, ("verdicts", "right"), ("calls", "right")]
    columns += [
        ("cost", "right"),
        ("cost p50", "right"),
        ("p95", "right"),
        ("judging p50", "right"),
        ("p95 ms", "right"),
    ]
    names = judge_labels([*lines, *effort])
    yield table(
        "Judging",
        columns,
        [
            [
                instant(row.start)[:16],
                ident(names[row.judge_id]),
                *(one_line(row.group.get(field, ""), limit=30) or "–" for field in group_by),
                str(row.verdicts),
                str(row.calls),
                money(row.total_usd),
                *((money(row.cost_usd.p50), money(row.cost_usd.p95)) if row.cost_usd else ("–", "–")),
                *_ms(row.latency_ms)[:2],
            ]
            for row in effort
        ],
    )
    changed = [line for line in lines if line.trend is not None]
    if changed:
        columns = [("window (UTC)", "left"), ("judge", "left"), *slices, ("rate", "right"), ("mean score", "right")]
        columns += [("change", "right"), ("95 %", "right")]
        yield table("Change from the previous window", columns, [_change(line, group_by, names) for line in changed])


def _change(line: RateLine, group_by: Sequence[str], names: Mapping[JudgeId, str]) -> list[str]:
    rate, trend = line.rate, line.trend
    if rate is None or trend is None:
        raise ValueError("no rate in one of them")
    return [
        instant(line.window.start)[:16],
        ident(names[line.judge_id]),
        *(one_line(line.group[field], limit=30) or "–" for field in group_by),
        percent(rate.estimate),
        "–" if rate.mean_score is None else f"{rate.mean_score:.3f}",
        f"{100 * trend.value:+.1f}",
        f"{100 * trend.low:+.1f} to {100 * trend.high:+.1f}",
    ]


def _ms(found: Percentiles | None) -> tuple[str, str, str]:
    return ("–", "–", "–") if found is None else (f"{found.p50:.0f}", f"{found.p95:.0f}", f"{found.p99:.0f}")
