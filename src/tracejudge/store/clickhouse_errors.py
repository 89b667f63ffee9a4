"""Errors of the ClickHouse driver: which of them pass by themselves; the StoreError, with a remedy, for the others."""

from __future__ import annotations

import re
from typing import Final

from tracejudge.errors import StoreError, StoreUnusable
from tracejudge.store.target import EmbeddedTarget, Target

TYPE_MISMATCH: Final = 53

_TRY_AGAIN: Final = frozenset(
    {
        198,  # DNS_ERROR
        75, 243,  # CANNOT_WRITE_TO_FILE_DESCRIPTOR, NOT_ENOUGH_SPACE: its disk is full
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203, 209, 210,  # NO_FREE_CONNECTION, SOCKET_TIMEOUT, NETWORK_ERROR
        242,  # TABLE_IS_READ_ONLY: a replica that has lost its keeper
        252,  # TOO_MANY_PARTS: merges are behind
        319,  # UNKNOWN_STATUS_OF_INSERT
        394,  # QUERY_WAS_CANCELLED: the server or the owner is closing
        425,  # SYSTEM_ERROR
        999,  # KEEPER_EXCEPTION
    }
)  # fmt: skip
_AUTHENTICATION_FAILED: Final = 516
_REMEDY: Final = {
    60: "the schema is missing or old: run `tracejudge migrate`",
    75: "make room on the disk of the store",
    243: "make room on the disk of the store",
    81: "the database is missing: run `tracejudge migrate`",
    47: "the schema may be older than this release: run `tracejudge migrate`",
    159: "ask for a shorter window, or raise the time limit of the store",
    160: "ask for a shorter window, or raise the time limit of the store",
    241: "ask for a shorter window, or raise the memory limit of the store",
    497: "grant this user the missing right (`tracejudge migrate --print` shows what is used)",
    516: "check user and password of the store's URL",
    164: "this user may only read: give the writing processes another one",
}
_UNUSABLE: Final = frozenset({60, 81, 164, 497, 516})  # mended by a person, in the settings or in the store
_OUR_REQUEST: Final = (400, 404, 405, 411, 413, 414)  # HTTP statuses that another attempt does not change
_DRIVERS_WORDS: Final = re.compile(
    r"Error \w+\(host=.*\(Caused by \w+\(\W?(?:\w+\(host=[^)]*\): )?(.+?)\W?\)\) executing .*"
)


def passes(error: Exception, target: Target) -> bool:
    """Whether an error of the driver may pass by itself, so that the statement is worth sending again."""
    from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError, StreamFailureError

    code = getattr(error, "code", None)
    if code is not None:
        # A new owner of the embedded engine has another password.
        return code in _TRY_AGAIN or (code == _AUTHENTICATION_FAILED and isinstance(target, EmbeddedTarget))
    if isinstance(error, OperationalError | StreamFailureError):
        return True
    # No ClickHouse answers with a bare status: it is a proxy, or another program on the port of an owner that has gone.
    text = str(error)
    return (
        isinstance(error, DatabaseError)
        and "HTTP status" in text
        and not any(f"HTTP status {status}" in text for status in _OUR_REQUEST)
    )


def refusal(error: Exception, target: Target) -> StoreError:
    """The StoreError for an error of the driver that does not pass, with its remedy where one is known."""
    from clickhouse_connect.driver.exceptions import DataError

    code = TYPE_MISMATCH if isinstance(error, DataError) else getattr(error, "code", None)
    known = _REMEDY.get(code or 0)
    kind = StoreUnusable if code in _UNUSABLE else StoreError
    return kind(f"store {target}: {shortened(error)}" + (f": {known}" if known else ""), code=code)


def remedy(error: Exception) -> str | None:
    """What a person can do about the error, where it is known."""
    return _REMEDY.get(getattr(error, "code", None) or 0)


def shortened(error: Exception) -> str:
    """The driver's message in one line of at most 600 characters, without its address and its own framing."""
    text = str(error)
    for noise in ("Received ClickHouse exception, ", "server response: "):
        text = text.replace(noise, "")
    text = text.split(" (for url ")[0].replace("\n", " ").strip()
    return _DRIVERS_WORDS.sub(r"\1", text)[:600]
