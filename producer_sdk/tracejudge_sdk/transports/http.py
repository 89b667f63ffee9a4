"""A gateway as a transport: JSON lines over HTTP, each acknowledged by itself once the queue behind it has it.

What the gateway refuses for good is told as TransportRejected with its positions, so that the client counts it; what it
could not hand over as TransportUnavailable. Trying again is the sender's part; only a connection that was kept open and
turns out to be dead is replaced at once, because the gateway closes idle ones. Redirects and proxies are not followed.
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401 - of the first name look-up: no import may be under way while a process forks
import http.client
import io
import json
import os
import socket
import ssl
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from tracejudge_sdk.codec import DEFAULT_MAX_RECORD_BYTES
from tracejudge_sdk.errors import ConfigError, TransportRejected, TransportUnavailable
from tracejudge_sdk.notices import warn
from tracejudge_sdk.transports.urls import HttpQueue

KEY_VARIABLE: Final = "TRACEJUDGE_INGEST_KEY"
_MAX_ANSWER_BYTES: Final = 16_000_000
_GZIP: Final = 31  # zlib's word for a gzip header and trailer
_STATUSES: Final = ("accepted", "refused", "unavailable")
_NOT_FOR_TEXTS: Final = frozenset((401, 404, 405, 407, 408, 429))  # what nobody answers because of what a record says
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class HttpTransport:
    """Posts to one gateway, over one connection that is kept open.

    `key_env` names the environment variable with the bearer key; several keys in it, separated by commas, are the
    gateway's way to change them, and the first is sent. `ca_file` holds the certificates to trust instead of the
    system's. `timeout_s` bounds one request as a whole. Raises ConfigError.
    """

    def __init__(
        self,
        queue: HttpQueue,
        *,
        key_env: str = KEY_VARIABLE,
        ca_file: str | None = None,
        compression: Literal["gzip", "none"] = "gzip",
        timeout_s: float = 10.0,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        max_request_bytes: int = 8_000_000,
        max_request_records: int = 1_000,
    ) -> None:
        if compression not in ("gzip", "none"):
            raise ConfigError(f"queue: compression {compression!r} is neither 'gzip' nor 'none'")
        if min(timeout_s, max_record_bytes, max_request_bytes, max_request_records) <= 0:
            raise ConfigError("queue: timeout_s, max_record_bytes, max_request_bytes, max_request_records: are above 0")
        self.max_record_bytes = max_record_bytes
        self._queue = queue
        self._timeout_s = timeout_s
        self._most_bytes, self._most_records = max_request_bytes, max_request_records
        self._key_env = key_env
        key = os.environ.get(key_env, "").partition(",")[0].strip()
        self._context = _client_context(ca_file) if queue.secure else None
        self._headers = {"Content-Type": "application/x-ndjson", "User-Agent": "tracejudge-sdk"}
        if key:
            if not key.isascii() or not key.isprintable() or " " in key:
                raise ConfigError(f"queue: the key in {key_env} is not one word of ASCII characters")
            self._headers["Authorization"] = f"Bearer {key}"
            if not queue.secure and queue.host not in _LOOPBACK:
                warn("tracejudge: the key of %s travels unencrypted to %s: use https://", key_env, queue.host)
        if compression == "gzip":
            self._headers["Content-Encoding"] = "gzip"
        self._connection: http.client.HTTPConnection | None = None
        self._socket: _BoundedSocket | None = None  # of the connection, which forgets it when an answer ends it
        self._closed = False

    def send(self, records: Sequence[tuple[str, bytes]]) -> None:
        refused: dict[int, str] = {}
        for start, part in _parts(records, most_bytes=self._most_bytes, most_records=self._most_records):
            try:
                answers = self._post(part)
            except TransportUnavailable as error:
                # Of this request nothing is known; what came before has its answer, what follows was not sent.
                left = tuple(sorted({*refused, *range(start, len(records))}))
                raise TransportUnavailable(str(error), failed=left) from error
            away = [i for i, answer in enumerate(answers) if answer.get("status") == "unavailable"]
            refused.update(
                (start + i, _words(answer)) for i, answer in enumerate(answers) if answer.get("status") == "refused"
            )
            if away:
                left = tuple(sorted({*refused, *(start + i for i in away), *range(start + len(part), len(records))}))
                raise TransportUnavailable(
                    f"{self._name()}: the queue behind it does not take records now", failed=left
                )
        if refused:
            first = min(refused)
            raise TransportRejected(
                f"{self._name()} refuses {len(refused)} of {len(records)} records, the first: {refused[first]}",
                failed=tuple(sorted(refused)),
            )

    def close(self, timeout_s: float) -> None:
        self._closed = True
        self._hang_up()

    def forget(self) -> None:
        """For a forked child: lets go of the connection, over which the parent goes on, without ending it."""
        self._closed = True
        bounded, self._connection, self._socket = self._socket, None, None
        if bounded is not None:
            bounded.forget()

    def _post(self, part: Sequence[tuple[str, bytes]]) -> list[dict[str, Any]]:
        """One answer for each record. Raises TransportUnavailable, TransportRejected when none is ever taken."""
        # A line break can only stand between tokens of JSON, where a blank does as well.
        body = self._packed(b"\n".join(data.replace(b"\n", b" ") for _, data in part))
        kept = self._connection is not None
        try:
            status, answer = self._exchange(body)
        except (http.client.HTTPException, OSError) as error:
            self._hang_up()
            if not kept or self._closed or isinstance(error, TimeoutError):
                raise self._unavailable(error) from error
            try:
                status, answer = self._exchange(body)
            except (http.client.HTTPException, OSError) as again:
                self._hang_up()
                raise self._unavailable(again) from again
        return self._read_answer(status, answer, len(part))

    def _packed(self, body: bytes) -> bytes:
        if "Content-Encoding" not in self._headers:
            return body
        packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
        return packer.compress(body) + packer.flush()

    def _reaches_gateway(self) -> bool:
        """Whether a request like any other but without records is answered by the gateway itself."""
        try:
            return _fault_of(json.loads(self._exchange(self._packed(b""))[1])) is not None
        except (http.client.HTTPException, OSError, ValueError, RecursionError, TransportUnavailable):
            self._hang_up()
            return False

    def _exchange(self, body: bytes) -> tuple[int, bytes]:
        if self._closed:
            raise TransportUnavailable("HTTP transport is closed: build another one")
        deadline = _Deadline(self._timeout_s)
        connection = self._connection
        if connection is None:
            connection = self._connect(deadline)
            self._connection = connection
            if self._closed:  # meanwhile, by another thread
                self._hang_up()
                raise TransportUnavailable("HTTP transport is closed: build another one")
        if self._socket is not None:
            self._socket.deadline = deadline
        cut_short = False
        try:
            connection.request("POST", self._queue.path, body=body, headers=self._headers)
        except (BrokenPipeError, ConnectionResetError):
            cut_short = True  # perhaps it has answered before it read everything: a body too large
        with connection.getresponse() as response:
            answer = response.read(_MAX_ANSWER_BYTES + 1)
        # Below 200 it is not the answer yet, which nobody may take for that of the next request.
        if cut_short or response.will_close or response.status < 200 or len(answer) > _MAX_ANSWER_BYTES:
            self._hang_up()
        return response.status, answer

    def _connect(self, deadline: _Deadline) -> http.client.HTTPConnection:
        queue = self._queue
        connected: socket.socket = socket.create_connection((queue.host, queue.port), timeout=deadline.left_s())
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                connected = self._context.wrap_socket(connected, server_hostname=queue.host)
        except BaseException:  # whatever ends the handshake goes on; nobody else knows this socket
            connected.close()
            raise
        kind = http.client.HTTPSConnection if queue.secure else http.client.HTTPConnection
        connection = kind(queue.host, queue.port)
        connection.sock = self._socket = _BoundedSocket(connected, deadline)
        return connection

    def _read_answer(self, status: int, answer: bytes, count: int) -> list[dict[str, Any]]:
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError):
            value = None
        lines = value.get("lines") if isinstance(value, dict) else None
        fault = _fault_of(value)
        said = f"HTTP status {status}" if fault is None else _words({"faults": [fault]})
        if status in (200, 422, 503) and isinstance(lines, list) and len(lines) == count:
            unknown = next((i for i, line in enumerate(lines) if _status_of(line) not in _STATUSES), None)
            if unknown is None:
                return lines
            said = f"line {unknown + 1} of its answer says {_status_of(lines[unknown])!r:.80}"
        elif status == 413 or (status in (400, 422) and fault is not None):
            # Not these records in one request; the sender then tries them one by one. A proxy refuses by size too.
            raise TransportRejected(f"{self._name()}: {said}")
        elif 400 <= status < 500 and fault is None and status not in _NOT_FOR_TEXTS and self._reaches_gateway():
            # A firewall's refusal of some text: waiting for it to pass would hold up everything behind it.
            raise TransportRejected(f"{self._name()}: {said}, of something in front of it that lets others pass")
        if status == 401:
            said += f": set {self._key_env} to the gateway's key, in the environment of this process"
        elif status not in (408, 429, 503):
            said += ": check that the queue URL leads to a tracejudge gateway"
        raise TransportUnavailable(f"{self._name()}: {said}")

    def _unavailable(self, error: Exception) -> TransportUnavailable:
        text = " ".join(str(error).split())[:200]
        remedy = "check that a tracejudge gateway listens there"
        if isinstance(error, ssl.SSLCertVerificationError):
            remedy = "give a file with the certificates to trust as the queue option ca_file"
        return TransportUnavailable(f"{self._name()}: {type(error).__name__}: {text}: {remedy}")

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        bounded, self._socket = self._socket, None
        if bounded is not None:
            bounded.shutdown()  # wakes a thread that waits on it
        if connection is not None:
            connection.close()

    def _name(self) -> str:
        queue = self._queue
        host = f"[{queue.host}]" if ":" in queue.host else queue.host
        return f"gateway {'https' if queue.secure else 'http'}://{host}:{queue.port}"


def _parts(
    records: Sequence[tuple[str, bytes]], *, most_bytes: int, most_records: int
) -> Iterator[tuple[int, Sequence[tuple[str, bytes]]]]:
    """The records in requests of bounded size, each with the position of its first record."""
    start = size = 0
    for position, (_, data) in enumerate(records):
        if position > start and (size + len(data) > most_bytes or position - start >= most_records):
            yield start, records[start:position]
            start, size = position, 0
        size += len(data) + 1
    if start < len(records):
        yield start, records[start:]


def _fault_of(answer: Any) -> dict[str, Any] | None:
    """The fault in a gateway's answer to a whole request; None in anybody else's."""
    fault = answer.get("error") if isinstance(answer, dict) else None
    return fault if isinstance(fault, dict) and isinstance(fault.get("reason"), str) else None


def _status_of(line: Any) -> Any:
    return line.get("status") if isinstance(line, dict) else None


def _words(answer: dict[str, Any]) -> str:
    """Why a line was refused: field and limit, never the value, which may be somebody's text."""
    faults = answer.get("faults")
    fault = faults[0] if isinstance(faults, list) and faults and isinstance(faults[0], dict) else {}
    said = [str(fault[name]) for name in ("field", "reason", "limit", "remedy") if fault.get(name)]
    return ": ".join(said)[:300] or "no reason given"


def _client_context(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"queue: ca_file {ca_file!r}: {error}: name a PEM file of certificates") from error


class _Deadline:
    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    def left_s(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no answer within {self._timeout_s:g} s")
        return left


class _BoundedSocket:
    """What http.client needs of a connected socket, bounded by one deadline for the whole exchange.

    A socket's own timeout bounds each wait only: a byte now and then would hold the sending thread for ever.
    """

    def __init__(self, connected: socket.socket, deadline: _Deadline) -> None:
        self._socket = connected
        self.deadline = deadline

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._socket.settimeout(self.deadline.left_s())
            rest = rest[self._socket.send(rest) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reply(self, self._socket))

    def shutdown(self) -> None:
        with contextlib.suppress(OSError):  # it is gone already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def forget(self) -> None:
        with contextlib.suppress(OSError):  # closed already
            os.close(self._socket.detach())


class _Reply(io.RawIOBase):
    """What is read of it. Closing the socket meanwhile, as http.client does when an answer ends the connection, takes
    effect when this is closed too."""

    def __init__(self, bounds: _BoundedSocket, connected: socket.socket) -> None:
        self._bounds = bounds
        self._socket = connected
        self._stream = connected.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed's Buffer has no type to index
        self._socket.settimeout(self._bounds.deadline.left_s())
        return self._stream.readinto(buffer) or 0

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
