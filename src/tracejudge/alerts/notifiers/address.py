"""Which address a webhook may be sent to: names are resolved once, checked, and the checked address is the one used."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST_6: Final = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that is given out to the public; site-local fec0::/10 and the local NAT64 prefixes lie outside."""
_SPECIAL: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "100.64.0.0/10",  # behind a carrier's NAT
            "192.0.0.0/24",  # protocol assignments
            "192.88.99.0/24",  # relays of 6to4
            "2001:db8::/32",  # documentation, and the next
            "3fff::/20",
        ),
    )
)
"""Said here because `is_global` does not know all of them in every version of Python."""

Resolve = Callable[[str, int], list[Any]]


class Address(NamedTuple):
    """An address to connect to."""

    host: str  # an IP address
    port: int


class AddressRefused(Exception):
    """The name leads to no address, or to one that is not public."""


def resolve(host: str, port: int) -> list[Any]:
    """Resolves a host by the system's resolver, as `socket.getaddrinfo` does."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def checked_address(host: str, port: int, *, allow_private: bool, resolver: Resolve = resolve) -> Address:
    """The first address of `host`; all of them must be public unless `allow_private`.

    Refusing when *any* is private, and connecting to the very address that was checked, leaves a name that changes its
    answer between two look-ups nothing to win. Raises AddressRefused.
    """
    try:
        found = resolver(host, port)
    except (OSError, UnicodeError) as error:  # UnicodeError: a label of the name is too long
        raise AddressRefused(f"{host!r} has no address ({error}); check the url") from error
    addresses = [entry[4][0] for entry in found]
    if not addresses:
        raise AddressRefused(f"{host!r} has no address; check the url")
    if not allow_private:
        inside = not_public(addresses)
        if inside:
            raise AddressRefused(
                f"{host!r} leads to {inside[0]}, which is not a public address; set allow_private = true to allow it"
            )
    return Address(addresses[0], port)


def not_public(addresses: Iterable[str]) -> list[str]:
    """The addresses that are not on the public internet."""
    return [address for address in addresses if not _public(address)]


def _public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])  # a scope (fe80::1%eth0) is no part of the address
    if isinstance(address, ipaddress.IPv6Address):
        # An IPv4 address may travel inside an IPv6 one, and is what is reached in the end.
        if address.ipv4_mapped is not None:
            return _public(str(address.ipv4_mapped))
        if address in _NAT64:
            return _public(str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)))
        if address.sixtofour is not None or address.teredo is not None:
            return False  # tunnels of another age: nobody serves a webhook there
        if address not in _UNICAST_6:
            return False
    if any(address in network for network in _SPECIAL):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)
