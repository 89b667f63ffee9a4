"""Store URLs: what each means, and what is said about those that mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracejudge.errors import SettingsError
from tracejudge.store.target import EmbeddedTarget, ServerTarget, parse_store_url


def test_embedded_urls_name_a_directory() -> None:
    assert parse_store_url("chdb:///data/x") == EmbeddedTarget(directory=Path("data/x"), database="default")
    assert parse_store_url("chdb:////var/a%20b?database=t1") == EmbeddedTarget(
        directory=Path("/var/a b"), database="t1"
    )


def test_server_urls_name_host_port_user_and_database() -> None:
    assert parse_store_url("clickhouse://u:p%40w@h:99/db") == ServerTarget(
        host="h", port=99, secure=False, user="u", password="p@w", database="db"
    )
    tls = parse_store_url("clickhouses://me@h", password="secret")
    assert tls == ServerTarget(host="h", port=8443, secure=True, user="me", password="secret", database="default")
    assert "secret" not in f"{tls} {tls!r}"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("chdb://data", "three slashes"),
        ("chdb:///", "names no directory"),
        ("postgres://h/db", "not one of"),
        ("clickhouse:///db", "names no host"),
        ("clickhouse://h:bad/db", "port"),
        ("clickhouse://h/db;drop", "plain name"),
        ("chdb:///x?databse=y", "databse"),
        ("", "not one of"),
    ],
)
def test_a_url_that_means_nothing_is_refused_with_what_to_write(url: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse_store_url(url)
