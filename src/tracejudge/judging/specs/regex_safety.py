"""Whether a regular expression can take exponential time: a repeat without bound inside another one.

Python's engine tries every way of sharing a text among nested repeats, and judged texts come from strangers. This finds
the nested kind, `(a+)+`; repeats of alternatives that begin alike, `(a|ab)*`, are for whoever writes the pattern.
"""

from __future__ import annotations

import sys
from typing import Any, Final

if sys.version_info >= (3, 11):
    from re import _constants, _parser  # type: ignore[attr-defined]
else:
    import sre_constants as _constants
    import sre_parse as _parser

_MANY: Final = 50  # a bounded repeat of a repeat is as bad from about here


def unsafe_repeat(pattern: str) -> str | None:
    """What is wrong with `pattern`, None where nothing of this kind is. The pattern must compile."""
    return "holds a repeat inside a repeat" if _nested(_parser.parse(pattern), inside=False) else None


def _nested(node: Any, *, inside: bool) -> bool:
    for operator, argument in node:
        if operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            _, most, body = argument
            many = most is _constants.MAXREPEAT or most > _MANY
            if (many and inside) or _nested(body, inside=inside or many):
                return True
        elif any(_nested(body, inside=inside) for body in _bodies(operator, argument)):
            return True
    return False


def _bodies(operator: Any, argument: Any) -> list[Any]:
    if operator is _constants.SUBPATTERN:
        return [argument[-1]]
    if operator is _constants.BRANCH:
        return list(argument[1])
    if operator in (_constants.ASSERT, _constants.ASSERT_NOT):
        return [argument[1]]
    if operator is _constants.GROUPREF_EXISTS:
        return [body for body in argument[1:] if body is not None]
    if str(operator) == "ATOMIC_GROUP":
        return [argument]
    return []
