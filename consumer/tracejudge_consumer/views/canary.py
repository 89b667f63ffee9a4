"""Two versions on different live traffic, side by side: a canary beside the old release."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from tracejudge.reports import BY_MINUTE_IN_WORDS, ReleaseCheck, ReleaseLine, judge_labels
from tracejudge.windows import PassRate
from tracejudge_consumer.terminal.rendering import console, ident, interval, percent, table, to_json
from tracejudge_consumer.views.mix import mixes_in_words


def show_canary(a: str, b: str, found: ReleaseCheck, *, chosen: Sequence[str], as_json: bool) -> None:
    """Prints the weighted rates of both by every judge, and what their difference allows one to say.

    `chosen` are the options that chose this traffic; the command that is named at the end has them too.
    """
    names = judge_labels(found.lines)
    said = [_words(a, b, line, names[line.judge_id]) for line in found.lines]
    if as_json:
        lines = [
            {
                "judge_id": line.judge_id, "heuristic": line.heuristic, "a": line.old, "b": line.new,
                "difference": line.result.difference, "mix": line.mix,
            }
            for line in found.lines
        ]  # fmt: skip
        click.echo(to_json({"a": a, "b": b, "exact": found.exact, "unpaired": lines, "in_words": said}))
        return
    columns = [("judge", "left"), (f"A, {ident(a)}", "right"), ("95 %", "right"), (f"B, {ident(b)}", "right")]
    columns += [("95 %", "right"), ("B - A", "right"), ("95 %", "right")]
    out = console()
    rows = [
        [ident(names[line.judge_id]), *_rate(line.old), *_rate(line.new), *_difference(line)] for line in found.lines
    ]
    out.print(table("Different traces on each side, weighted by their inclusion probability", columns, rows))
    for sentence in said:
        out.print(sentence)
    for sentence in mixes_in_words(found.lines, names):
        out.print(sentence)
    if not found.exact:
        out.print(f"{BY_MINUTE_IN_WORDS} `tracejudge release check --exact` reads every row.")
    words = ("tracejudge", "release", "check", b, "--against", a, *chosen)
    out.print(f"release decision:  {ident(shlex.join(words))}", soft_wrap=True)


def _words(a: str, b: str, line: ReleaseLine, name: str) -> str:
    seen = line.result.difference
    if seen is None:
        return f"By {ident(name)} no comparison: one of the two has no settled verdict."
    low, high = 100 * seen.low, 100 * seen.high
    if low <= 0.0 <= high:
        return (
            f"By {ident(name)} this traffic does not show whether {b} passes more or less often than {a}: anything "
            f"from {low:+.1f} to {high:+.1f} points is possible."
        )
    near, far = sorted((abs(low), abs(high)))
    word = "more" if low > 0 else "less"
    by = f"by {100 * abs(seen.value):.1f} points ({near:.1f} to {far:.1f})"
    return f"By {ident(name)} {b} passes {word} often than {a}, {by}; their traffic may differ."


def _rate(rate: PassRate | None) -> tuple[str, str]:
    return ("–", "–") if rate is None else (percent(rate.estimate), interval(rate.low, rate.high))


def _difference(line: ReleaseLine) -> tuple[str, str]:
    seen = line.result.difference
    if seen is None:
        return "–", "–"
    return f"{100 * seen.value:+.1f}", f"{100 * seen.low:+.1f} to {100 * seen.high:+.1f}"
