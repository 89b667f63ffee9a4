"""The schema: numbered SQL files, applied in order.

Every statement may be repeated and may run in two processes at once, so no lock is needed. The first line of a file,
`-- oldest_reader: N`, names the oldest release (by the last migration it knows) that can still work on the new schema:
additive files repeat an old number, and the previous release goes on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Final

from tracejudge.errors import SchemaTooNew, StoreError, StoreUnusable
from tracejudge.store.connection import Connection

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_HEADER = re.compile(r"-- oldest_reader: (\d+)\n")
_UNKNOWN_TABLE: Final = 60
_UNKNOWN_DATABASE: Final = 81
_RACE: Final = frozenset({57, 82, 521})
"""TABLE_ALREADY_EXISTS, DATABASE_ALREADY_EXISTS, ...: another process was between its look and its creation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One file. `oldest_reader` is the least schema version a release must know to work after it."""

    version: int
    name: str
    oldest_reader: int
    statements: tuple[str, ...]
    text: str


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations of this release, in order."""
    found = []
    for entry in files("tracejudge.store").joinpath("migrations").iterdir():
        match = _NAME.fullmatch(entry.name)
        if match is None:
            continue
        text = entry.read_text(encoding="utf-8")
        header = _HEADER.match(text)
        if header is None:
            raise ValueError(f"{entry.name}: the first line must be `-- oldest_reader: N`")
        found.append(
            Migration(
                version=int(match.group(1)),
                name=match.group(2),
                oldest_reader=int(header.group(1)),
                statements=tuple(part.strip() for part in re.split(r";[ \t]*\n", text) if _has_sql(part)),
                text=text,
            )
        )
    return tuple(sorted(found, key=lambda one: one.version))


def _has_sql(part: str) -> bool:
    return any(line.strip() and not line.lstrip().startswith("--") for line in part.splitlines())


def ddl(database: str) -> str:
    """Everything `migrate` would run on an empty store, for a person to read and run."""
    create = f"CREATE DATABASE IF NOT EXISTS `{database}`;\n\n"
    record = "".join(
        "INSERT INTO schema_migrations (version, name, oldest_reader, release) "
        f"VALUES ({one.version}, '{one.name}', {one.oldest_reader}, '{_release()}');\n"
        for one in migrations()
    )
    return create + f"USE `{database}`;\n\n" + "\n".join(one.text for one in migrations()) + "\n" + record


def migrate(connection: Connection) -> list[str]:
    """Applies what is missing and returns the names of it. Raises SchemaTooNew as `check_schema` does."""
    connection.command(f"CREATE DATABASE IF NOT EXISTS `{connection.target.database}`", database=False)
    applied = _applied(connection)
    _refuse_too_new(applied)
    done = []
    for migration in migrations():
        if migration.version in applied:
            continue
        for statement in migration.statements:
            _run(connection, statement)
        connection.insert(
            "schema_migrations",
            ("version", "name", "oldest_reader", "release"),
            ("UInt32", "String", "UInt32", "String"),
            [(migration.version, migration.name, migration.oldest_reader, _release())],
        )
        done.append(f"{migration.version:04d}_{migration.name}")
    return done


def check_schema(connection: Connection) -> None:
    """Raises SchemaTooNew when a newer release has migrated the store beyond us, StoreUnusable when we are ahead."""
    applied = _applied(connection)
    _refuse_too_new(applied)
    missing = [one for one in migrations() if one.version not in applied]
    if missing:
        names = ", ".join(f"{one.version:04d}_{one.name}" for one in missing)
        lacks = f"the schema lacks {names}" if applied else "there are no tables yet"
        raise StoreUnusable(f"store {connection.target}: {lacks}: run `tracejudge migrate`")


def _run(connection: Connection, statement: str) -> None:
    for attempt in range(5):
        try:
            connection.command(statement)
        except StoreError as error:
            if error.code not in _RACE or attempt == 4:
                raise
        else:
            return


def _applied(connection: Connection) -> dict[int, int]:
    """Applied versions, each with its oldest reader."""
    try:
        rows = connection.query("SELECT version, oldest_reader FROM schema_migrations FINAL")
    except StoreError as error:
        if error.code in (_UNKNOWN_TABLE, _UNKNOWN_DATABASE):
            return {}
        raise
    return {int(row[0]): int(row[1]) for row in rows}


def _refuse_too_new(applied: dict[int, int]) -> None:
    known = migrations()[-1].version
    needed = max(applied.values(), default=0)
    if needed > known:
        raise SchemaTooNew(
            f"the store's schema is at {max(applied)} and can be used by releases that know {needed} or later; this "
            f"release ({_release()}) knows {known}: upgrade tracejudge here, or use the release that migrated the store"
        )


def _release() -> str:
    try:
        return version("tracejudge")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
