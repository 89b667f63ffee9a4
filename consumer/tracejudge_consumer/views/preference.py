"""What a pairwise judge says of two pipelines: who wins, how often nobody does, and how much of it was the place."""

from __future__ import annotations

import click

from tracejudge.counted import counted
from tracejudge.reports import Estimate, Preference, Preferred, preference_in_words
from tracejudge_consumer.terminal.rendering import console, ident, interval, money, percent, table, to_json


def show_preference(a: str, b: str, found: Preference, *, as_json: bool) -> None:
    """Prints it, for people or as JSON."""
    said = preference_in_words(found, a=a, b=b)
    if as_json:
        click.echo(to_json({"a": a, "b": b, "preference": found, "in_words": said}))
        return
    out, counts = console(), found.all.counts
    ids = ", ".join(map(ident, found.judge_ids))
    out.print(
        f"{counted(counts.n, 'question')} settled of {counted(found.pairs, 'pair')}, by {ids}: "
        f"{counted(found.calls, 'call')}, {money(found.cost_usd)}, {found.invalid} invalid"
    )
    rows = [
        [f"A, {ident(a)}, is better", str(counts.a_better)],
        [f"B, {ident(b)}, is better", str(counts.b_better)],
        ["a tie in both orders", str(counts.tie)],
        ["a tie in one order only", str(counts.one_order)],
        ["the answer read first won both times", str(counts.first_place)],
        ["the answer read second won both times", str(counts.second_place)],
    ]
    out.print(table("Both orders asked", [("", "left"), ("questions", "right")], rows))
    rows = [_row("all", found.all), *(_row(ident(name) or "(none)", one) for name, one in found.slices.items())]
    columns = [("slice" if found.slices else "", "left"), ("won", "right"), ("by B", "right"), ("95 %", "right")]
    columns += [("p", "right"), ("by the place", "right"), ("95 %", "right"), ("p of the places", "right")]
    out.print(table("Preference and place", columns, rows))
    for sentence in said:
        out.print(sentence)


def _row(name: str, one: Preferred) -> list[str]:
    return [name, str(one.counts.won), *_share(one.b_share), _p(one.sign_p), *_share(one.by_place), _p(one.place_p)]


def _share(value: Estimate | None) -> tuple[str, str]:
    return ("–", "–") if value is None else (percent(value.value), interval(value.low, value.high))


def _p(value: float | None) -> str:
    return "–" if value is None else "< 0.0001" if value < 0.0001 else f"{value:.4f}"
