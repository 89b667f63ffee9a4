"""The way to a judge's endpoint: through the proxy that the environment names, unless it runs on this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def proxy_for(url: str) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for this address; None on loopback: a proxy's loopback
    is another machine's. aiohttp can find it out by itself, and does so in another thread for every call: more than
    half of what a call costs."""
    address = urlsplit(url)
    if not address.hostname or _is_loopback(address.hostname) or proxy_bypass(address.hostname):
        return None
    return getproxies().get(address.scheme)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
