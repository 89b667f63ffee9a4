"""What every bench shares: figures with a goal, the table of them, `--quick --json --only`, and the exit status.

    CASES = {"overhead": overhead, "makespan": makespan}  # each: a Run in, one Figure or several out
    if __name__ == "__main__":
        sys.exit(main("judging", CASES))

A figure is a ratio to a peer, a bare floor or an exact optimum measured in the same run: the median of several rounds,
with the least and the greatest of them. A case that fails counts as a goal missed, and the others still run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Case = Callable[["Run"], "Figure | Iterable[Figure]"]

_NAME_WIDTH: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How this run was asked for. `quick`: a look in under a minute, with fewer rounds and smaller inputs."""

    quick: bool

    def pick(self, whole: int, quick: int) -> int:
        """A size: `whole`, or `quick` in a quick run."""
        return quick if self.quick else whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number. `reached` None: shown for comparison, without a goal. `spread`: least and greatest round."""

    name: str
    value: float
    goal: str = ""
    reached: bool | None = None
    spread: tuple[float, float] | None = None
    unit: str = ""
    note: str = ""


def at_least(name: str, rounds: Sequence[float], goal: float, *, unit: str = "", note: str = "") -> Figure:
    """The median of `rounds`, to be `goal` or more."""
    value = statistics.median(rounds)
    return Figure(
        name=name,
        value=value,
        goal=f">= {goal:g}",
        reached=value >= goal,
        spread=(min(rounds), max(rounds)),
        unit=unit,
        note=note,
    )


def at_most(name: str, rounds: Sequence[float], goal: float, *, unit: str = "", note: str = "") -> Figure:
    """The median of `rounds`, to be `goal` or less."""
    value = statistics.median(rounds)
    return Figure(
        name=name,
        value=value,
        goal=f"<= {goal:g}",
        reached=value <= goal,
        spread=(min(rounds), max(rounds)),
        unit=unit,
        note=note,
    )


def exactly(name: str, value: float, goal: float, *, unit: str = "", note: str = "") -> Figure:
    """A count, to be `goal`."""
    return Figure(name=name, value=value, goal=f"= {goal:g}", reached=value == goal, unit=unit, note=note)


def shown(name: str, rounds: Sequence[float], *, unit: str = "", note: str = "") -> Figure:
    """The median of `rounds`, for comparison only."""
    return Figure(name=name, value=statistics.median(rounds), spread=(min(rounds), max(rounds)), unit=unit, note=note)


def main(subject: str, cases: Mapping[str, Case], argv: Sequence[str] | None = None) -> int:
    """Runs the cases asked for, prints their figures, and returns the exit status: 1 when a goal is missed."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.bench.{subject}", description=f"Figures of {subject}; exit status 1 on a missed goal."
    )
    parser.add_argument("--quick", action="store_true", help="a look in under a minute: fewer rounds, smaller inputs")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--only", metavar="CASE[,CASE]", help=f"of: {', '.join(cases)}")
    asked = parser.parse_args(argv)
    chosen = list(cases) if asked.only is None else asked.only.split(",")
    if unknown := [name for name in chosen if name not in cases]:
        parser.error(f"--only: no case {', '.join(unknown)}; there are {', '.join(cases)}")
    figures: list[Figure] = []
    started = time.perf_counter()
    for name in chosen:
        print(f"... {name}", file=sys.stderr, flush=True)
        figures += _of_case(name, cases[name], Run(quick=asked.quick))
    conditions = {
        "subject": subject,
        "quick": asked.quick,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "seconds": round(time.perf_counter() - started),
    }
    if asked.json:
        rows = [{key: getattr(figure, key) for key in Figure.__slots__} for figure in figures]
        rows = [row if math.isfinite(row["value"]) else {**row, "value": None} for row in rows]
        print(json.dumps({**conditions, "figures": rows}, ensure_ascii=False))
    else:
        print(table(figures))
        print("  ".join(f"{key} {value}" for key, value in conditions.items()))
    return 1 if any(figure.reached is False for figure in figures) else 0


def table(figures: Sequence[Figure]) -> str:
    """Figure, value, spread, goal, reached: one line each."""
    head = f"{'figure':{_NAME_WIDTH}} {'value':>10} {'least..greatest':>19}  {'goal':10} reached"
    lines = [head, "-" * len(head)]
    for figure in figures:
        spread = "" if figure.spread is None else f"{_short(figure.spread[0])}..{_short(figure.spread[1])}"
        reached = {None: "-", True: "yes", False: "NO"}[figure.reached]
        value = f"{_short(figure.value)}{figure.unit and ' ' + figure.unit}"
        lines.append(f"{figure.name:{_NAME_WIDTH}} {value:>10} {spread:>19}  {figure.goal:10} {reached}")
        if figure.note:
            lines.append(f"    {figure.note}")
    return "\n".join(lines)


def _of_case(name: str, case: Case, run: Run) -> list[Figure]:
    try:
        found = case(run)
        return [found] if isinstance(found, Figure) else list(found)
    except Exception:  # noqa: BLE001 - one case that cannot run must not hide the figures of the others
        traceback.print_exc()
        return [Figure(name=f"{name}: failed, see above", value=math.nan, reached=False)]


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
