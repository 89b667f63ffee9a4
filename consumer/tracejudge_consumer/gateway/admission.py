"""Who may send: a Host that is ours, no web page, and the key, compared in constant time.

A port on loopback is open to every web page that the user has open: a page may send requests to it, and, by letting its
own name lead to 127.0.0.1 (DNS rebinding), read the answers. So the name in `Host` must be ours, whatever a browser
marks as coming from a page is refused, and a content type is demanded that a page cannot send unasked.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping
from typing import Final

from tracejudge.errors import SettingsError
from tracejudge_consumer.gateway.answers import Refusal
from tracejudge_consumer.process.host_names import cannot_lead_elsewhere, host_name, is_loopback

MIN_KEY_CHARS: Final = 16


def keys_from(text: str | None, *, variable: str, host: str) -> tuple[str, ...]:
    """The keys held by an environment variable, separated by commas: two while one is being changed.

    Raises SettingsError for a key that can be guessed, and for none where the address can be reached from outside.
    """
    keys = tuple(key.strip() for key in (text or "").split(",") if key.strip())
    if not keys and not is_loopback(host):
        raise SettingsError(
            [
                f"gateway: {host} can be reached from other machines, and {variable} holds no key: "
                f"export {variable}=$(openssl rand -hex 32), or set gateway.host to 127.0.0.1"
            ]
        )
    short = [key for key in keys if len(key) < MIN_KEY_CHARS]
    if short:
        raise SettingsError(
            [
                f"gateway: a key in {variable} has {len(short[0])} characters, at least {MIN_KEY_CHARS} are needed: "
                f"export {variable}=$(openssl rand -hex 32)"
            ]
        )
    return keys


class Admission:
    """The rules of one gateway. A request is refused with the status and words it is to be answered with."""

    def __init__(self, *, host: str, hosts: Collection[str], keys: Collection[str], variable: str) -> None:
        """`host` is listened on; `hosts` are further names under which clients reach it (behind a proxy, say).

        Away from loopback any name is taken unless `hosts` names some: there the key keeps web pages out.
        """
        self._names = {name.lower() for name in hosts}
        self._any_name = not is_loopback(host) and not hosts
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]
        self._variable = variable

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Raises Refusal unless the request is addressed to us."""
        if self._any_name:
            return
        name = host_name(headers.get("Host", ""))
        if name in self._names or cannot_lead_elsewhere(name):  # probes ask by an address
            return
        raise Refusal(
            403,
            reason="wrong_host",
            field="Host",
            value=repr(name[:80]),
            limit="an IP address, localhost, and the names of gateway.hosts",
            remedy="add the name to gateway.hosts",
        )

    def check_no_page(self, headers: Mapping[str, str]) -> None:
        """Raises Refusal when a browser says that a web page sends this."""
        site = headers.get("Sec-Fetch-Site", "none")
        if "Origin" in headers or site != "none":
            raise Refusal(
                403,
                reason="from_a_page",
                field="Origin",
                value=repr(headers.get("Origin", site)[:80]),
                limit="no request of a web page",
                remedy="log from the service that answers, not from the browser",
            )

    def check_key(self, headers: Mapping[str, str]) -> None:
        """Raises Refusal unless the bearer key is a configured one, or no key is configured."""
        if not self._digests:
            return
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        digest = hashlib.sha256(given.strip().encode("utf-8", "surrogateescape")).digest()
        # Every key is compared, each in constant time: neither which one it is nor how much of it fits can be measured.
        fits = [hmac.compare_digest(digest, ours) for ours in self._digests]
        if scheme.lower() != "bearer" or not any(fits):
            raise Refusal(
                401,
                reason="wrong_key",
                field="Authorization",
                value="an unknown key" if given else "is missing",
                limit="Bearer with a key of the gateway",
                remedy=f"send the header `Authorization: Bearer ...` with the key of {self._variable}",
                headers={"WWW-Authenticate": "Bearer"},
            )
