"""What may stand in the target or a header of a request."""

from __future__ import annotations


def sendable(text: str) -> bool:
    """Whether HTTP takes it in a target or a header. What it does not take, http.client quotes in its errors, which
    end in logs: secrets are looked at before.

    >>> sendable("/services/T0"), sendable("token\\n")
    (True, False)
    """
    return all("!" <= char <= "~" for char in text)
