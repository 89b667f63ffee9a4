"""Store URLs: `chdb:///relative`, `chdb:////absolute`, `clickhouse://user:pw@host:port/db`, `clickhouses://` (TLS)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from tracejudge.errors import SettingsError

_DATABASE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedTarget:
    """A directory of this machine, served by its owner process."""

    directory: Path
    database: str

    def __str__(self) -> str:
        return f"chdb:///{self.directory}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTarget:
    """A ClickHouse server's HTTP interface."""

    host: str
    port: int
    secure: bool
    user: str
    password: str
    database: str

    def __str__(self) -> str:  # never the password
        return f"clickhouse{'s' * self.secure}://{self.user}@{self.host}:{self.port}/{self.database}"

    __repr__ = __str__


Target = EmbeddedTarget | ServerTarget


def parse_store_url(url: str, *, password: str | None = None) -> Target:
    """Where `url` points; `password` overrides the one in it. Raises SettingsError saying what is wrong."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    faults = [
        f"store: unknown option {name!r} in the URL: only `database` is known" for name in {*options} - {"database"}
    ]
    target: Target | None = None
    if parts.scheme == "chdb":
        path = unquote(parts.path)[1:]  # chdb:///data -> data, chdb:////var/data -> /var/data
        if parts.netloc or not path:
            faults.append(
                f"store: {url!r} names no directory: write chdb:///RELATIVE (three slashes) or chdb:////ABSOLUTE (four)"
            )
        else:
            target = EmbeddedTarget(directory=Path(path), database=options.get("database") or "default")
    elif parts.scheme in ("clickhouse", "clickhouses"):
        secure = parts.scheme == "clickhouses"
        try:
            port = parts.port or (8443 if secure else 8123)
        except ValueError:
            port = 0
            faults.append("store: the port is not a number from 1 to 65535")
        if not parts.hostname:
            faults.append("store: the URL names no host: write clickhouse://user:password@host:8123/database")
        target = ServerTarget(
            host=parts.hostname or "",
            port=port,
            secure=secure,
            user=unquote(parts.username or "default"),
            password=password if password is not None else unquote(parts.password or ""),
            database=options.get("database") or unquote(parts.path).strip("/") or "default",
        )
    else:
        faults.append(
            f"store: scheme {parts.scheme!r} is not one of chdb:// (embedded), clickhouse://, clickhouses:// (TLS)"
        )
    if target is not None and not _DATABASE.fullmatch(target.database):
        faults.append(f"store: database {target.database!r} is not a plain name of letters, digits and underscores")
    if faults or target is None:
        raise SettingsError(faults)
    return target
