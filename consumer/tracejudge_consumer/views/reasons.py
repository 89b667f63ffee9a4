"""Why lines could not be read, with those that differ in the value seen alone put together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Console

from tracejudge.counted import counted
from tracejudge_consumer.terminal.rendering import one_line

_MOST: Final = 20
_SEEN: Final = re.compile(r"""(?<=leads to )(?:'[^']*'|"[^"]*")|\d+""")


def show_reasons(out: Console, reasons: Mapping[str, int], *, one: str, many: str) -> None:
    """A line for each kind of reason, the most frequent first; `one` and `many` say what it is counted of."""
    kinds = list(_alike(reasons))
    for example, number, differing in kinds[:_MOST]:
        such_as = "such as: " if differing > 1 else ""
        out.print(f"  {counted(number, one, many)}: {such_as}{one_line(example, limit=300)}")
    if len(kinds) > _MOST:
        out.print(f"  and {counted(len(kinds) - _MOST, 'reason')} more; --json lists all")


def _alike(reasons: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    """The first of each kind, how often the kind came, and in how many different texts."""
    kinds: dict[str, list[str]] = {}
    for reason in reasons:
        kinds.setdefault(_SEEN.sub("#", reason), []).append(reason)
    found = [(texts[0], sum(reasons[text] for text in texts), len(texts)) for texts in kinds.values()]
    yield from sorted(found, key=lambda kind: -kind[1])
