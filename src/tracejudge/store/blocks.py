"""Many values as columns: checked a column at a time, which costs a fraction of checking and turning each row.

The rules are those of `values`, and what breaks one raises IrregularRows: the batch then goes the way of single rows,
which mends what can be mended and names what cannot. Columns of plain texts are declared as such to the driver, since
the store makes its dictionaries faster than the driver does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final

from tracejudge.store.values import EPOCH, microseconds

_LATEST_US: Final = microseconds("", datetime(2199, 12, 31, tzinfo=timezone.utc))

Column = Sequence[Any]
"""The cells of one column, ready for the driver."""


_REAL: Final = {float, int}


class IrregularRows(Exception):
    """A column holds a value that does not fit: the rows have to be encoded one by one."""


class Block:
    """Columns of one insert, and about how many bytes they are. A column in which nothing is said is not there: the
    store fills in NULL, "", 0 or an empty list, as it would have been told."""

    def __init__(self) -> None:
        self.columns: dict[str, Column] = {}
        self.size_bytes = 0

    def add(self, name: str, column: Column) -> None:
        """A column whose cells are checked; 8 bytes a cell."""
        self.columns[name] = column
        self.size_bytes += 8 * len(column)

    def release(self) -> None:
        """Empties the columns. The driver's insert refers to itself, and so keeps what it was given, all the texts,
        until the garbage collector comes by."""
        for column in self.columns.values():
            if isinstance(column, list):
                column.clear()
        self.columns.clear()

    def texts(self, name: str, column: Sequence[str]) -> None:
        """Texts that UTF-8 can hold."""
        self._weigh(column)
        if any(column):
            self.columns[name] = column

    def optional_texts(self, name: str, column: Sequence[str | None]) -> None:
        """Texts or None."""
        said = [one for one in column if one is not None]
        if said:
            self.columns[name] = column
            self._weigh(said)

    def text_lists(self, name: str, column: Sequence[Sequence[str | None]]) -> None:
        """Lists of texts or None."""
        if not any(column):
            return
        self.add(name, column)
        self._weigh([one for cell in column for one in cell if one is not None])

    def text_maps(self, name: str, column: Sequence[Mapping[str, str]]) -> None:
        """Texts by text."""
        if any(column):
            self.add(name, column)
            self._weigh([one for cell in column for pair in cell.items() for one in pair])

    def optional_reals(self, name: str, column: Sequence[float | None]) -> None:
        """Finite numbers or None."""
        said = [one for one in column if one is not None]
        if said:
            check_reals(said)
            self.add(name, column)

    def reals(self, name: str, column: Sequence[float], *, low: float = -math.inf, high: float = math.inf) -> None:
        """Finite numbers in [low, high]."""
        check_reals(column)
        if column and not low <= min(column) <= max(column) <= high:
            raise IrregularRows(name)
        self.add(name, column)

    def wholes(self, name: str, column: Sequence[int], *, low: int = 0, high: int = 2**63 - 1) -> None:
        """Whole numbers in [low, high]."""
        if not set(map(type, column)) <= {int} or (column and not low <= min(column) <= max(column) <= high):
            raise IrregularRows(name)
        if any(column):
            self.add(name, column)

    def flags(self, name: str, column: Sequence[bool]) -> None:
        """Truth values."""
        if not set(map(type, column)) <= {bool}:
            raise IrregularRows(name)
        if any(column):
            self.add(name, column)

    def _weigh(self, texts: Sequence[str]) -> None:
        if not set(map(type, texts)) <= {str}:
            raise IrregularRows("not all are texts")
        try:
            together = "".join(texts)
            self.size_bytes += 8 * len(texts) + (len(together) if together.isascii() else len(together.encode()))
        except UnicodeEncodeError as error:
            raise IrregularRows(str(error)) from error


def check_reals(numbers: Collection[float]) -> None:
    """Raises IrregularRows unless all are finite numbers."""
    if not set(map(type, numbers)) <= _REAL or not all(map(math.isfinite, numbers)):
        raise IrregularRows("not all are finite numbers")


def instants_us(instants: Sequence[datetime]) -> list[int]:
    """Microseconds since 1970 of aware instants."""
    try:
        since = [one - EPOCH for one in instants]
    except TypeError as error:  # naive, or no instant at all
        raise IrregularRows(str(error)) from error
    found = [one.days * 86_400_000_000 + one.seconds * 1_000_000 + one.microseconds for one in since]
    if found and not 0 <= min(found) <= max(found) < _LATEST_US:
        raise IrregularRows("an instant is out of range")
    return found


def plain_type(name: str) -> str:
    """The type that a column is declared with to the driver: dictionaries are the store's to make."""
    return name.replace("LowCardinality(String)", "String").replace(
        "LowCardinality(Nullable(String))", "Nullable(String)"
    )
