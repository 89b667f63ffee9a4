"""Pass rates as a table, and what has to be said beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Final

from rich.text import Text

from tracejudge.counted import counted
from tracejudge.reports import RateLine, judge_labels
from tracejudge.windows import enough
from tracejudge_consumer.terminal.fitting import FittedTable
from tracejudge_consumer.terminal.rendering import bar, ident, instant, interval, one_line, percent, table

_MANY: Final = 40  # below it n_eff far from judged is nothing to wonder at


def remarks(lines: list[RateLine], over_budget: Mapping[str, int]) -> Iterator[str]:
    """What a reader of the table must know to take its rates for no more than they are. `over_budget`: by judge, the
    traces left unjudged for its budget."""
    if any(_much_fewer(line) for line in lines):
        yield (
            "n_eff is less than half of judged: traffic was sampled at different rates, or one answer came many times "
            "(equal ones count once an hour); the intervals go by n_eff"
        )
    if any(line.stratified for line in lines):
        yield "stratified: the sizes of all strata are known in windows of " + ", ".join(_stratified(lines))
    for name, traces in over_budget.items():
        yield (
            f"coverage low: {ident(name)} left {counted(traces, 'trace')} unjudged for its budget. What a budget cuts "
            "off is not random, so the rates of these windows claim nothing about them."
        )
    failed = {line.judge_id: line.judge_name for line in lines if line.judge_failed}
    for judge_id, name in failed.items():
        invalid = sum(line.rate.invalid for line in lines if line.judge_id == judge_id and line.rate is not None)
        yield (
            f"coverage low: {ident(name)} failed to judge {counted(invalid, 'trace')}. A judge seldom fails at random, "
            "so the rates of these windows claim nothing about them; `tracejudge retry` judges them again."
        )


def _much_fewer(line: RateLine) -> bool:
    """Whether there are so many fewer effective samples than judged traces that it needs an explanation."""
    return line.rate is not None and line.rate.judged >= _MANY and line.rate.n_eff < line.rate.judged / 2


def rates_table(
    lines: list[RateLine], *, group_by: tuple[str, ...], min_effective: float, bars: bool = True
) -> FittedTable:
    """The lines as a table; windows without data say so instead of showing a zero. `bars` needs a wide terminal."""
    plain = any(_differs(line) for line in lines)
    columns = [("window (UTC)", "left"), ("judge", "left"), *((field, "left") for field in group_by)]
    columns += [("pass rate", "right"), ("95 %", "right"), ("", "left")]
    columns += [("plain", "right")] if plain else []
    columns += [("judged", "right"), ("n_eff", "right"), ("invalid", "right")]
    rows = []
    names = judge_labels(lines)
    for line, windows in _runs(lines):
        cells: list[str | Text] = [
            instant(line.window.start)[0 if bars else 5 : 16],
            ident(names[line.judge_id]),
            *(one_line(line.group[field], limit=30) or "–" for field in group_by),
        ]
        rate = line.rate
        if rate is None or rate.estimate is None:
            cells += ["no data", "–", _times(windows, bars)]
        elif not enough(rate, min_effective):
            cells += [
                percent(rate.estimate),
                interval(rate.low, rate.high),
                Text("not enough data" if bars else "few", style="dim"),
            ]
        else:
            shown = bar(rate.estimate) if bars else ""
            cells += [percent(rate.estimate), interval(rate.low, rate.high), shown]
        if line.over_budget or line.judge_failed:
            cells[-1] = Text("coverage low" if bars else "low", style="yellow")
        if plain:
            cells.append("–" if rate is None else percent(rate.plain))
        cells += ["0", "–", "0"] if rate is None else [str(rate.judged), f"{rate.n_eff:.0f}", str(rate.invalid)]
        rows.append(cells)
    return table("Pass rates", columns, rows)


def _times(windows: int, wide: bool) -> str:
    if windows == 1:
        return ""
    return f"{windows} windows" if wide else f"×{windows}"


def _runs(lines: list[RateLine]) -> Iterator[tuple[RateLine, int]]:
    """The lines with 1; of windows without data on end, the first alone and how many there are."""

    def empty(line: RateLine) -> bool:
        return (line.rate is None or (line.rate.judged == 0 and not line.rate.invalid)) and not line.over_budget

    def series(line: RateLine) -> tuple[object, ...]:
        return (empty(line), line.judge_id, *line.group.items())

    for (nothing, *_), run in groupby(lines, key=series):
        found = list(run)
        if nothing:
            yield found[0], len(found)
        else:
            yield from ((line, 1) for line in found)


def _stratified(lines: list[RateLine]) -> list[str]:
    return sorted({ident(line.judge_name) for line in lines if line.stratified})


def _differs(line: RateLine) -> bool:
    """True when the weighted and the plain rate differ visibly."""
    rate = line.rate
    return (
        rate is not None
        and rate.estimate is not None
        and rate.plain is not None
        and abs(rate.estimate - rate.plain) >= 0.0005
    )
