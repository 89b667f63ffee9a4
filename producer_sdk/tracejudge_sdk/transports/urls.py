"""The queue URL: one line of settings that says where records go."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracejudge_sdk.errors import ConfigError

DEFAULT_KAFKA_PORT: Final = 9092

HTTP_PATH: Final = "/v1/traces"

_SHAPES: Final = "sqlite:///PATH, kafka://HOST:PORT[,HOST:PORT]/TOPIC, https://HOST[:PORT] or memory://NAME"
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # Kafka's own rule for topic names
_PATH: Final = re.compile(r"[A-Za-z0-9._~%/-]*")
_HOST: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^:\[\]\s@]+)(:(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class SqliteQueue:
    """A SQLite log in a file of this machine."""

    path: Path


@dataclass(frozen=True)
class KafkaQueue:
    """A Kafka topic."""

    bootstrap_servers: tuple[str, ...]
    topic: str


@dataclass(frozen=True)
class MemoryQueue:
    """A list inside this process."""

    name: str


@dataclass(frozen=True)
class HttpQueue:
    """A gateway (`tracejudge gateway`), which stands in front of one of the others."""

    secure: bool
    host: str
    port: int
    path: str
    """Where records are posted: what the URL says, and /v1/traces."""


Queue = SqliteQueue | KafkaQueue | MemoryQueue | HttpQueue


def parse_queue_url(url: str) -> Queue:
    """What a queue URL names. Raises ConfigError with the shape it should have."""
    if not isinstance(url, str) or "://" not in url:
        raise ConfigError(f"queue: {url!r} is not a queue URL: give {_SHAPES}")
    scheme, rest = url.split("://", 1)
    if "@" in rest.split("/", 1)[0]:
        # Not repeated in the message: it would put a password into somebody's log.
        raise ConfigError(
            "queue: credentials do not belong into the URL: give Kafka's as options (sasl_plain_username, ...), a "
            "gateway's key as TRACEJUDGE_INGEST_KEY in the environment"
        )
    if "?" in rest:
        raise ConfigError(f"queue: {url!r} has a query part: give settings as options beside the URL, not in it")
    if scheme == "sqlite":
        return _sqlite(url, rest)
    if scheme == "kafka":
        return _kafka(url, rest)
    if scheme in ("http", "https"):
        return _http(url, scheme, rest)
    if scheme == "memory":
        if not rest or "/" in rest:
            raise ConfigError(f"queue: {url!r} names no memory queue: give memory://NAME")
        return MemoryQueue(rest)
    raise ConfigError(f"queue: {scheme!r} is not a known kind of queue: give {_SHAPES}")


def _sqlite(url: str, rest: str) -> SqliteQueue:
    # As in SQLAlchemy: three slashes then a relative path, four for an absolute one.
    if not rest.startswith("/"):
        raise ConfigError(f"queue: {url!r} puts a host where none can be: give sqlite:///{rest} (three slashes)")
    path = rest[1:]
    if not path or path.endswith("/") or "\x00" in path:
        raise ConfigError(f"queue: {url!r} names no file: give sqlite:///queue.db or sqlite:////var/lib/queue.db")
    return SqliteQueue(Path(path))


def _http(url: str, scheme: str, rest: str) -> HttpQueue:
    server, _, path = rest.partition("/")
    match = _HOST.fullmatch(server)
    if match is None:
        raise ConfigError(f"queue: {url!r} names no server: give {scheme}://HOST[:PORT]")
    if not _PATH.fullmatch(path):
        raise ConfigError(f"queue: the path of {url!r} holds more than letters, digits and -._~/: percent-encode it")
    port = int(match["port"] or (443 if scheme == "https" else 80))
    if not 1 <= port <= 65535:
        raise ConfigError(f"queue: port {port} of {url!r} is not in 1..65535")
    prefix = path.strip("/").removesuffix(HTTP_PATH.strip("/")).strip("/")
    return HttpQueue(
        scheme == "https", match["host"].strip("[]"), port, f"/{prefix}{HTTP_PATH}" if prefix else HTTP_PATH
    )


def _kafka(url: str, rest: str) -> KafkaQueue:
    hosts, slash, topic = rest.partition("/")
    if not slash or not topic:
        raise ConfigError(f"queue: {url!r} names no topic: give kafka://HOST:PORT/TOPIC")
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise ConfigError(
            f"queue: topic {topic!r} is no Kafka topic name: use 1 to 249 letters, digits, dots, underscores, hyphens"
        )
    servers: list[str] = []
    for item in hosts.split(","):
        match = _HOST.fullmatch(item.strip())
        if match is None:
            raise ConfigError(f"queue: {item!r} is not HOST:PORT: give kafka://HOST:PORT[,HOST:PORT]/TOPIC")
        port = int(match["port"] or DEFAULT_KAFKA_PORT)
        if not 1 <= port <= 65535:
            raise ConfigError(f"queue: port {port} of {item!r} is not in 1..65535")
        servers.append(f"{match['host']}:{port}")
    return KafkaQueue(tuple(servers), topic)
