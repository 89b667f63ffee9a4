"""A table that reads well in any width: columns no narrower than their longest word, or one block for each row.

Words are not cut up while there is room to break between them: an id must stay one thing to copy, and a name must not
lose its "(heuristic)". Where not even the words stand side by side, each row becomes a block of `heading  value` lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

_GAP: Final = 2
_LONGEST_WORD: Final = 40
"""Cells a column must have for one word: an id with its dashes, but not a page of text without a blank."""


@dataclass(kw_only=True, eq=False)
class FittedTable:
    """Headings and rows of harmless text, laid out when the width is known."""

    title: str
    columns: Sequence[tuple[str, bool]]
    """Heading, and whether its cells stand on the right and are never broken (numbers)."""
    rows: list[list[Text]] = field(default_factory=list)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, or its rows as blocks where the words of a row do not fit beside each other."""
        widths = self._widths(options.max_width)
        if widths is None:
            yield from self._blocks()
        else:
            yield self._table(widths)

    def _widths(self, available: int) -> list[int] | None:
        least, most = [], []
        for number, (heading, whole) in enumerate(self.columns):
            cells = [row[number].plain for row in self.rows]
            needed = max((cell_len(cell) if whole else _longest_word(cell) for cell in cells), default=0)
            least.append(max(needed, _longest_word(heading)))
            most.append(max([cell_len(line) for cell in (heading, *cells) for line in cell.split("\n")]))
        room = available - _GAP * (len(self.columns) - 1) - sum(least)
        if room < 0 and self.rows:
            return None
        return _filled(least, most, max(room, 0))

    def _table(self, widths: Sequence[int]) -> Table:
        result = Table(
            title=self.title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False,
            padding=(0, _GAP, 0, 0),
        )  # fmt: skip
        for number, ((heading, whole), width) in enumerate(zip(self.columns, widths, strict=True)):
            last = number == len(self.columns) - 1
            result.add_column(
                Text(heading), justify="right" if whole else "left", overflow="fold", width=width,
                min_width=None if last else width,
            )  # fmt: skip
        for row in self.rows:
            result.add_row(*row)
        return result

    def _blocks(self) -> Iterator[RenderableType]:
        yield Text(self.title, style="bold")
        margin = max(cell_len(heading) for heading, _ in self.columns[1:]) if len(self.columns) > 1 else 0
        for first, *others in self.rows:
            yield first
            block = Table.grid(padding=(0, _GAP, 0, 0))
            block.add_column(min_width=margin + 2, no_wrap=True)
            block.add_column(overflow="fold")
            for (heading, _), cell in zip(self.columns[1:], others, strict=True):
                if cell.plain:
                    block.add_row(Text(f"  {heading}"), cell)
            yield block


def _longest_word(text: str) -> int:
    return min(_LONGEST_WORD, max((cell_len(word) for word in text.split()), default=0))


def _filled(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """Gives the room out one column after the other, those that want least first, each an equal share at most."""
    widths = list(least)
    wanting = sorted(range(len(least)), key=lambda number: most[number] - least[number])
    for place, number in enumerate(wanting):
        share = min(most[number] - least[number], room // (len(wanting) - place))
        share = max(share, 0)
        widths[number] += share
        room -= share
    return widths
