"""What every table shares: typed columns, inserts that lose no batch to one bad row, and reading back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from tracejudge.errors import StoreError
from tracejudge.store.blocks import Block, IrregularRows, plain_type
from tracejudge.store.connection import Connection, Row
from tracejudge.store.rows import Inserted, Rejected
from tracejudge.store.values import RowRefused

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_MAX_INSERT_BYTES: Final = 32_000_000  # well below the embedded server's limit of a request
_MAX_INSERT_ROWS: Final = 100_000
_BAD_DATA: Final = frozenset({6, 26, 27, 33, 38, 41, 53, 69, 70, 72, 117, 131, 321, 349})
"""ClickHouse's codes for a cell that cannot be taken (CANNOT_PARSE_..., TYPE_MISMATCH, TOO_LARGE_STRING_SIZE, ...)."""

RejectSink = Callable[[str, Sequence[tuple[object, Rejected]]], None]


class Columns:
    """Names and types of the columns a table writes and reads, in one order; `plain` without dictionaries."""

    def __init__(self, **types: str) -> None:
        self.names = tuple(types)
        self.types = tuple(types.values())
        self.plain = {name: plain_type(kind) for name, kind in types.items()}
        self.selected = ", ".join(f"`{name}`" for name in self.names)


class Table(Generic[_T]):
    """Base of the tables. `_encode` gives a value's cells in column order and raises RowRefused for a bad one."""

    name: str
    columns: Columns

    def __init__(self, connection: Connection, rejects: RejectSink) -> None:
        self._connection = connection
        self._rejects = rejects

    # Tables that are only read, or only written, have one of these two; abstract methods would make each write both.
    def _encode(self, value: _T) -> Row:
        raise NotImplementedError(f"{self.name}: this table is only read here")

    def _decode(self, row: Row) -> _T:
        raise NotImplementedError(f"{self.name}: this table is only written here")

    def _block(self, values: Sequence[_T]) -> Block:
        """The columns of these values, for tables that are written all day."""
        raise IrregularRows("rows, one by one")

    def _insert(self, values: Sequence[_T]) -> Inserted:
        """Stores all rows but the bad ones, which go to `dead_letters` with their reason."""
        block = self._checked(values)
        if block is not None and self._write_block(block):
            return Inserted(stored=len(values))
        good, bad = self._encode_all(values)
        return self._write(values, good, bad)

    def _checked(self, values: Sequence[_T]) -> Block | None:
        """The columns of these values; None where each has to be looked at, or the insert to be cut."""
        try:
            block = self._block(values)
        # Values that are not of their types may raise anything, and are refused one by one with their reasons.
        except (IrregularRows, RowRefused, AttributeError, TypeError, ValueError, OverflowError):
            return None
        return block if len(values) <= _MAX_INSERT_ROWS and block.size_bytes <= _MAX_INSERT_BYTES else None

    def _write_block(self, block: Block) -> bool:
        """Inserts the columns; False where the store refuses a cell."""
        if not any(map(len, block.columns.values())):
            return True
        try:
            types = {name: kind for name, kind in self.columns.plain.items() if name in block.columns}
            self._connection.insert_columns(self.name, types, [block.columns[name] for name in types])
        except StoreError as error:
            if error.code not in _BAD_DATA:
                raise
            return False
        finally:
            block.release()
        return True

    def _encode_all(self, values: Sequence[_T]) -> tuple[list[tuple[int, Row]], list[Rejected]]:
        good: list[tuple[int, Row]] = []
        bad: list[Rejected] = []
        for index, value in enumerate(values):
            try:
                good.append((index, self._encode(value)))
            except RowRefused as error:
                bad.append(Rejected(index=index, reason=error.reason, detail=str(error)))
        return good, bad

    def _write(self, values: Sequence[_T], good: Sequence[tuple[int, Row]], bad: list[Rejected]) -> Inserted:
        late: list[Rejected] = []
        for batch in _batches(good):
            late += self._store(batch)
        rejected = sorted([*bad, *late], key=lambda reject: reject.index)
        if rejected:
            logger.warning(
                "%d of %d rows for %s refused, first: %s", len(rejected), len(values), self.name, rejected[0].detail
            )
            self._rejects(self.name, [(values[reject.index], reject) for reject in rejected])
        return Inserted(stored=len(good) - len(late), rejected=tuple(rejected))

    def _store(self, batch: Sequence[tuple[int, Row]]) -> list[Rejected]:
        """Inserts a batch; where the store refuses it for a cell, halves it until the bad rows stand alone."""
        try:
            self._connection.insert(self.name, self.columns.names, self.columns.types, [row for _, row in batch])
        except StoreError as error:
            if error.code not in _BAD_DATA:
                raise
            if len(batch) == 1:
                return [Rejected(index=batch[0][0], reason="ill_typed", detail=str(error))]
            middle = len(batch) // 2
            return self._store(batch[:middle]) + self._store(batch[middle:])
        return []

    def _select(
        self,
        tail: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        final: bool = True,
        binary: Sequence[str] = (),
    ) -> list[_T]:
        """The values of `SELECT columns FROM table FINAL <tail>`."""
        sql = f"SELECT {self.columns.selected} FROM {self.name}{' FINAL' if final else ''} {tail}"
        return self._selected(sql, parameters, binary=binary)

    def _selected(self, sql: str, parameters: Mapping[str, Any] | None, *, binary: Sequence[str]) -> list[_T]:
        return [self._decode(row) for row in self._connection.query(sql, parameters, binary=binary)]


class Where:
    """Conditions joined by AND, every value bound by the server."""

    def __init__(self) -> None:
        self._conditions: list[str] = []
        self.parameters: dict[str, Any] = {}

    def add(self, condition: str, **parameters: Any) -> Where:
        """Adds a condition that names its parameters as `{name:Type}`."""
        self._conditions.append(condition)
        self.parameters.update(parameters)
        return self

    def equal(self, column: str, value: str | None) -> Where:
        """Adds `column = value`, unless the value is None."""
        if value is not None:
            self.add(f"{column} = {{{column}:String}}", **{column: value})
        return self

    def parts(self) -> tuple[str, ...]:
        """The conditions."""
        return tuple(self._conditions)

    def __str__(self) -> str:
        return "WHERE " + " AND ".join(self._conditions) if self._conditions else ""


def _batches(rows: Sequence[tuple[int, Row]]) -> Iterator[list[tuple[int, Row]]]:
    batch: list[tuple[int, Row]] = []
    size = 0
    for item in rows:
        weight = _weight(item[1])
        if batch and (size + weight > _MAX_INSERT_BYTES or len(batch) >= _MAX_INSERT_ROWS):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += weight
    if batch:
        yield batch


def _weight(row: Sequence[Any]) -> int:
    """About the bytes of a row: four a character at most, eight a number."""
    total = 0
    for cell in row:
        if isinstance(cell, str | bytes):
            total += len(cell) if cell.isascii() else 3 * len(cell)
        elif isinstance(cell, list | tuple):
            total += _weight(cell)
        elif isinstance(cell, dict):
            total += _weight(list(cell.values())) + _weight(list(cell))
        else:
            total += 8
    return total
