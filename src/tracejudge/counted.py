"""A number with its noun, for what people read: 1 trace, 2 traces."""

from __future__ import annotations


def counted(number: float, one: str, many: str | None = None, *, form: str = "") -> str:
    """The number (in Python's format `form`) and `one`, or `many` (by default `one` with an s) where it is not 1.

    >>> counted(1, "trace"), counted(0, "trace"), counted(1200, "trace", form=",")
    ('1 trace', '0 traces', '1,200 traces')
    >>> counted(2, "trace waits", "traces wait")
    '2 traces wait'
    """
    return f"{number:{form}} {one if number == 1 else many or one + 's'}"
