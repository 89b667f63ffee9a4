"""Text that no receiver turns into a link: names in alerts come from producers, and a link in a page looks like ours.

Chats, mail programs and incident tools make a link of whatever begins like an address. Addresses stay readable, in the
form that people who handle hostile text know: `https[:]//evil[.]test`, `evil[.]test`. The link to an alert's own page
is not passed through here. Programs get names as they are (the generic webhook, labels of Alertmanager).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

# Not only at the beginning of a word: an address is found behind "_", a digit or an accented letter too.
_SCHEME: Final = re.compile(r":(?=//)")
_SPOKEN: Final = re.compile(r"(?i)(?<![a-z])(mailto|tel|javascript|data|file):(?=\S)")
_WWW: Final = re.compile(r"(?i)(?<![a-z])www\.(?=\S)")
# Mail programs make a link of `evil.test` too. "tags." is ours, and begins the name of a field that a rule groups by.
_BARE: Final = re.compile(r"(?<=[\w-])(?<!\btags)\.(?=[^\W\d_]{2})")


def unlinked(text: str) -> str:
    """The text without addresses that anything would make a link of.

    >>> unlinked("see https://evil.test or WWW.evil.test at 12:30")
    'see https[:]//evil[.]test or WWW[.]evil[.]test at 12:30'
    >>> unlinked("tags.tenant evil.test fell to 95.1 %, v1.2")
    'tags.tenant evil[.]test fell to 95.1 %, v1.2'
    """
    text = _SPOKEN.sub(r"\1[:]", _SCHEME.sub("[:]", text))
    return _BARE.sub("[.]", _WWW.sub(lambda found: f"{found[0][:-1]}[.]", text))


def unlinked_json(value: Any) -> Any:
    """JSON values with every text in them unlinked, keys too, except the link to the page about an event."""
    if isinstance(value, str):
        return unlinked(value)
    if isinstance(value, Mapping):
        return {
            unlinked(str(name)): one if name == "page" and isinstance(one, str) else unlinked_json(one)
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [unlinked_json(one) for one in value]
    return value
