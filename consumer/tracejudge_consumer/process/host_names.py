"""Hosts that servers listen on and requests name: what is this machine, and what may be somebody else's name for it."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str:
    """The name or address of a Host header, in lower case and without its port; "" for brackets that do not close."""
    header = header.strip().lower()
    if header.startswith("["):
        name, bracket, _ = header[1:].partition("]")
        return name if bracket else ""
    return header.rpartition(":")[0] if ":" in header else header


def cannot_lead_elsewhere(name: str) -> bool:
    """Whether a request that names this was meant for us: an address or localhost. Any other name may be a web page's
    own, led to 127.0.0.1 so that the page can read the answers (DNS rebinding)."""
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
