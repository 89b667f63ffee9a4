"""Just enough of ClickHouse's grammar to split an INSERT from its data and to find a FORMAT clause.

A lexer that skips comments, quoted texts and parentheses: regular expressions over raw SQL are fooled by all three.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    rb"""
    (?P<space>\s+)
  | (?P<comment>--[^\n]*(?:\n|\Z)|\#[ !][^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))
  | (?P<quoted>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`\\]|\\.|``)*`)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_INSERT_HEAD_BYTES = 1 << 20  # an INSERT's column list is far shorter; the rest is data and must not be lexed


class Token(NamedTuple):
    """A word or sign at the top level (outside quotes, comments and parentheses)."""

    text: bytes
    start: int
    end: int


class InsertHead(NamedTuple):
    """An INSERT whose data follows inline: `INSERT INTO t (a, b)`, its `SETTINGS ...` where it has some, the format's
    name, and where the data begins."""

    statement: str
    settings: str
    format: str
    data_start: int


def _top_level(sql: bytes, *, stop: int | None = None) -> Iterator[Token]:
    depth = 0
    position = 0
    end = len(sql) if stop is None else min(stop, len(sql))
    while position < end:
        match = _TOKEN.match(sql, position, end)
        if match is None:  # pragma: no cover - the last branch takes any byte
            return
        position = match.end()
        kind = match.lastgroup
        if kind in ("space", "comment"):
            continue
        text = match.group()
        if text in (b"(", b"["):
            depth += 1
        elif text in (b")", b"]"):
            depth -= 1
        elif depth == 0:
            yield Token(text, match.start(), match.end())


def first_word(sql: bytes) -> str:
    """The statement's first word in capitals ("" when it has none)."""
    for token in _top_level(sql, stop=_INSERT_HEAD_BYTES):
        return token.text.decode("ascii", "replace").upper()
    return ""


def split_insert(sql: bytes) -> InsertHead | None:
    """The head of an `INSERT INTO ... FORMAT X <data>`; None for every other statement (INSERT ... SELECT too)."""
    tokens = _top_level(sql, stop=_INSERT_HEAD_BYTES)
    if next(tokens, Token(b"", 0, 0)).text.upper() != b"INSERT":
        return None
    settings_at: int | None = None
    for token in tokens:
        word = token.text.upper()
        if word == b"SETTINGS" and settings_at is None:
            settings_at = token.start
        if word in (b"SELECT", b"WITH", b"VALUES", b"FROM"):
            return None
        if word == b"FORMAT":
            name = next(tokens, None)
            if name is None or not re.fullmatch(rb"[A-Za-z0-9_]+", name.text):
                return None
            start = name.end
            # One line break (or blank) separates the format's name from the data; a binary format begins right after.
            if sql[start : start + 2] == b"\r\n":
                start += 2
            elif sql[start : start + 1] in (b"\n", b" ", b"\t"):
                start += 1
            target = sql[: token.start if settings_at is None else settings_at].decode("utf-8")
            settings = "" if settings_at is None else sql[settings_at : token.start].decode("utf-8")
            return InsertHead(target, settings, name.text.decode("ascii"), start)
    return None


def output_format(sql: bytes) -> str | None:
    """The name in the statement's own `FORMAT x` clause, where it has one."""
    found: str | None = None
    tokens = iter(_top_level(sql))
    for token in tokens:
        if token.text.upper() == b"FORMAT":
            name = next(tokens, None)
            if name is not None and re.fullmatch(rb"[A-Za-z0-9_]+", name.text):
                found = name.text.decode("ascii")
    return found


def writes(sql: bytes) -> bool:
    """True for what begins like a query and is none: `WITH ... INSERT`, `SELECT ... INTO OUTFILE`. A column of such a
    name is taken for it too."""
    return any(token.text.upper() in (b"INSERT", b"OUTFILE") for token in _top_level(sql))


def has_more_than_one(sql: bytes) -> bool:
    """True when a second statement follows a semicolon."""
    seen = False
    for token in _top_level(sql):
        if seen:
            return True
        seen = token.text == b";"
    return False
