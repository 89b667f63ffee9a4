"""Who sits at the keyboard: the name that stands beside what somebody did."""

from __future__ import annotations

import getpass


def this_person() -> str:
    """The name of the user, or "unknown": a container often runs under a number that has no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
