"""What an endpoint says, within what a row can hold: it is text, and numbers, from outside.

JSON can hold half of a character (a server that cuts its reply in the middle of one sends it), numbers without end, and
names of any length; a file of results holds none of them.
"""

from __future__ import annotations

from typing import Any, Final

from tracejudge_sdk.json_values import scrub_text

NAME_CHARS: Final = 200
MOST_TOKENS: Final = 10_000_000
"""Of one call. No model takes or gives as many: such a count is a mistake, and the cap on money would believe it."""


def name_reported(value: Any) -> str:
    """A model's name or fingerprint; "" where there is none."""
    return scrub_text(str(value or "")[:NAME_CHARS])


def tokens_reported(value: Any) -> int:
    """Tokens as counted by the endpoint; 0 where it gives no number that can be, as some give for a prompt in their
    cache."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_TOKENS else 0
