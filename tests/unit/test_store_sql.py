"""Splitting an INSERT from its data, past comments, quotes and parentheses."""

from __future__ import annotations

import pytest

from tracejudge.store.embedded import sql


@pytest.mark.parametrize(
    ("statement", "head", "format_", "data"),
    [
        (b"INSERT INTO t (a, b) FORMAT Native\n\x01\x02", "INSERT INTO t (a, b) ", "Native", b"\x01\x02"),
        (b"insert into t format CSV 1,2\n", "insert into t ", "CSV", b"1,2\n"),
        (b"INSERT INTO `FORMAT x` (`a`) FORMAT TSV\r\nrow", "INSERT INTO `FORMAT x` (`a`) ", "TSV", b"row"),
        (b"-- FORMAT no\nINSERT INTO t FORMAT Values", "-- FORMAT no\nINSERT INTO t ", "Values", b""),
        (
            b"/* SELECT */ INSERT INTO t /* FORMAT A */ FORMAT B\n\n",
            "/* SELECT */ INSERT INTO t /* FORMAT A */ ",
            "B",
            b"\n",
        ),
        (b"INSERT INTO t SETTINGS async_insert=0 FORMAT N\nx", "INSERT INTO t ", "N", b"x"),
        ("INSERT INTO tä FORMAT N\nx".encode(), "INSERT INTO tä ", "N", b"x"),
    ],
)
def test_an_insert_is_split_where_its_data_begins(statement: bytes, head: str, format_: str, data: bytes) -> None:
    found = sql.split_insert(statement)
    assert found is not None
    assert (found.statement, found.format, statement[found.data_start :]) == (head, format_, data)


def test_the_settings_of_an_insert_stand_apart() -> None:
    found = sql.split_insert(b"INSERT INTO t (a) SETTINGS a = 1, b = 'FORMAT' FORMAT N\nx")
    assert found is not None
    assert (found.statement, found.settings) == ("INSERT INTO t (a) ", "SETTINGS a = 1, b = 'FORMAT' ")


@pytest.mark.parametrize(
    "statement",
    [
        b"INSERT INTO t VALUES (1, 'FORMAT Native')",
        b"INSERT INTO t SELECT 1 FORMAT Native",
        b"INSERT INTO t (a) SELECT 'x' FORMAT CSV",
        b"INSERT INTO t FROM INFILE 'x' FORMAT CSV",
        b"SELECT 1 FORMAT Native",
        b"",
        b"INSERT INTO t (a FORMAT b)",
    ],
)
def test_other_statements_have_no_inline_data(statement: bytes) -> None:
    assert sql.split_insert(statement) is None


def test_words_and_formats_are_found_outside_quotes_and_comments_only() -> None:
    assert sql.first_word(b" /* INSERT */ -- DROP\n select 1") == "SELECT"
    assert sql.first_word(b"(SELECT 1)") == ""
    assert sql.first_word(b"") == ""
    assert sql.output_format(b"SELECT 'FORMAT CSV' FORMAT JSON") == "JSON"
    assert sql.output_format(b"SELECT (1) -- FORMAT CSV") is None
    assert sql.output_format(b"SELECT `format` FROM t\n FORMAT Native") == "Native"
    assert sql.output_format(b"SELECT 'it''s \\' FORMAT CSV'") is None


def test_a_second_statement_is_seen_and_a_last_semicolon_is_not_one() -> None:
    assert sql.has_more_than_one(b"SELECT 1; SELECT 2")
    assert not sql.has_more_than_one(b"SELECT 1;")
    assert not sql.has_more_than_one(b"SELECT ';' ; -- end\n /* ; */ ")
    assert not sql.has_more_than_one(b"SELECT 1")
