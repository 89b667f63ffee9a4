"""What in a judge's options looks like a secret: settings are stored and shown, so a key has no place in them.

Messages name the place and never the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_NAME: Final = re.compile(
    r"(^|_)(api_?key|access_?key|private_?key|secret|passwd|password|passphrase|token|credentials?|"
    r"authorization|auth|cookies?)($|_)"
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_SECRET: Final = frozenset({"max_tokens", "token_limit", "max_completion_tokens", "max_output_tokens"})

_VALUE: Final = re.compile(
    r"\s*(?:Bearer|Basic)\s+\S"  # the value of an Authorization header
    r"|\s*[srp]k-\S{6,}\s*\Z"  # a short key that stands alone
    r"|\w[\w+.-]*://[^/\s@]*:[^/\s@]*@",  # a URL with a password
    re.IGNORECASE,
)
_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:[srp]k-[A-Za-z0-9_-]{16,}|gsk_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|AKIA[A-Z0-9]{16}|eyJ[A-Za-z0-9_-]{10,}\.eyJ)"
)

_DEEPEST: Final = 32


def holds_key(text: str) -> bool:
    """True where a key of a well-known shape, an Authorization value or a URL's password stands in `text`."""
    return _VALUE.match(text) is not None or _KEY.search(text) is not None


def refuse_secrets(options: Mapping[str, Any]) -> None:
    """Raises ValueError, naming the place, where a name or a text anywhere in `options` looks like a secret."""
    _look(options, "", _DEEPEST)


def _look(value: Any, place: str, depth: int) -> None:
    if depth == 0:
        raise ValueError(f"{place[:80]}...: nested deeper than {_DEEPEST} levels; make it flatter")
    if isinstance(value, str):
        if holds_key(value):
            raise ValueError(
                f"{place!r}: its text looks like a secret; name its environment variable in api_key_env instead"
            )
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            name = str(key)
            if holds_key(name):
                raise ValueError(f"a name in {place or 'it'!r} looks like a secret; use api_key_env instead")
            here = f"{place}.{name}" if place else name
            plain = _CAMEL.sub("_", name).lower().replace("-", "_").replace(" ", "_")
            if _NAME.search(plain) and plain not in _NO_SECRET:
                raise ValueError(f"{here!r} looks like a secret; name its environment variable in api_key_env instead")
            _look(inner, here, depth - 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            _look(item, f"{place}[]", depth - 1)
