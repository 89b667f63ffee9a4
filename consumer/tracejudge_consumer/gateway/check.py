"""What `tracejudge doctor` asks of a gateway: may it listen as it is set up, and does it take records now?"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tracejudge.errors import SettingsError
from tracejudge_consumer.gateway.admission import keys_from
from tracejudge_consumer.gateway.tls import server_context
from tracejudge_consumer.process.host_names import is_loopback
from tracejudge_consumer.settings import GatewaySettings

_TIMEOUT_S: Final = 5.0


class Found(NamedTuple):
    """One thing that was tried."""

    subject: str
    passed: bool
    detail: str
    fix: str = ""


def check_gateway(section: GatewaySettings, *, environ: Mapping[str, str]) -> Iterator[Found]:
    """Whether the gateway of the settings may start, and whether one answers on its port."""
    try:
        keys = keys_from(environ.get(section.key_env), variable=section.key_env, host=section.host)
        tls = server_context(section.tls_cert_file, section.tls_key_file)
    except SettingsError as error:
        for fault in error.faults:
            yield Found("gateway", False, fault, fault.rpartition(": ")[2])
        return
    who = "with a key" if keys else "without a key, for this machine only"
    if keys and tls is None and not is_loopback(section.host):
        who += "; no TLS of its own: put a proxy in front of it, or set gateway.tls_cert_file"
    yield Found("gateway", True, f"{section.host}:{section.port}, {who}")
    if tls is None:
        host = section.host if is_loopback(section.host) else "127.0.0.1"
        yield answering(host, section.port, secure=False, path="/ready", subject="gateway answers")


def answering(host: str, port: int, *, secure: bool, path: str, subject: str) -> Found:
    """What the gateway there says about itself."""
    fix = f"start `tracejudge gateway` (or `tracejudge up`), and check its {path}"
    connection: http.client.HTTPConnection
    if secure:
        connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=ssl.create_default_context())
    else:
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body: Any = json.loads(response.read(100_000))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Found(subject, False, f"{host}:{port}: {type(error).__name__}: {error}", fix)
    finally:
        connection.close()
    reasons = body.get("reasons") if isinstance(body, dict) else None
    if response.status == 200 and reasons == []:
        return Found(subject, True, f"{host}:{port} accepts records")
    words = "; ".join(map(str, reasons)) if isinstance(reasons, list) and reasons else f"status {response.status}"
    return Found(subject, False, f"{host}:{port}: {words}", fix)
