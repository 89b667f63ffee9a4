"""One bounded exchange over HTTP with a receiver that somebody else names: its address checked, its time limited."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from tracejudge.alerts.notifiers.address import Resolve, checked_address, resolve
from tracejudge.alerts.notifiers.deadline import Deadline, DeadlineSocket
from tracejudge.alerts.notifiers.sendable import sendable
from tracejudge.clock import Clock
from tracejudge.errors import SettingsError


def parse_url(url: str) -> SplitResult:
    """The parts of an http(s) URL with a host and without credentials. Raises SettingsError."""
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError as error:  # a port that is no number, or brackets without an address
        raise SettingsError([f"url: {error}; write it as 'https://host/path'"]) from error
    if not usable:
        raise SettingsError(["url: needs http or https and a host; write it as 'https://host/path'"])
    if parts.username is not None or parts.password is not None:
        raise SettingsError(["url: holds a user or password; use secret_env to sign instead"])
    if not sendable(parts.path + parts.query):
        raise SettingsError(["url: holds a space, or a character that is none of a URL; write it in %XX form"])
    return parts


def exchange(
    method: str,
    url: SplitResult,
    *,
    body: bytes | None,
    headers: Mapping[str, str],
    allow_private: bool,
    timeout_s: float,
    clock: Clock,
    resolver: Resolve = resolve,
) -> int:
    """Sends one request and gives the status of the answer, whose body is not read. Redirects are not followed.

    Raises AddressRefused, OSError, and HTTPException. Messages of these name the host at most, never path or query.
    """
    host = url.hostname or ""
    secure = url.scheme == "https"
    port = url.port or (443 if secure else 80)
    deadline = Deadline(timeout_s, clock=clock)
    address = checked_address(host, port, allow_private=allow_private, resolver=resolver)
    # The socket goes to the address that was checked; names are for TLS and the Host header only. No proxy.
    connection = http.client.HTTPConnection(host, port)
    raw = socket.create_connection((address.host, address.port), timeout=deadline.left_s())
    try:
        if secure:
            raw.settimeout(deadline.left_s())  # of the whole handshake
            raw = ssl.create_default_context().wrap_socket(raw, server_hostname=host)
        connection.sock = DeadlineSocket(raw, deadline)
        target = url.path or "/"
        if url.query:
            target += "?" + url.query
        default = 443 if secure else 80
        bracketed = f"[{host}]" if ":" in host else host
        all_headers = {"Host": bracketed if port == default else f"{bracketed}:{port}", **headers}
        connection.request(method, target, body=body, headers=all_headers)
        return connection.getresponse().status  # the body is not read: its size is the other side's choice
    finally:
        connection.close()
        raw.close()
