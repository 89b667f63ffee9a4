"""The reply behind a result of LlamaIndex's own evaluators, read once more by our rules."""

from __future__ import annotations

import re
from typing import Final

from tracejudge.judging.replies.reply_text import Unreadable, no_shape, visible
from tracejudge.judging.replies.verdict import Number, Verdict, parse_number, parse_verdict
from tracejudge.judging.specs.stock import STOCK_READINGS, STOCK_RESULT_TOP
from tracejudge.scores import InvalidReason

_RESULT: Final = re.compile(r"\[RESULT\]", re.IGNORECASE)
_POINTS: Final = re.compile(r"\s*(?P<points>[+-]?\d+(?:\.\d+)?)\s*\.?\s*(?:\n|\Z)")


def reads(evaluator: str) -> bool:
    """True for evaluators whose replies have a documented shape."""
    return evaluator in STOCK_READINGS


def read_stock(evaluator: str, reply: str) -> Verdict | Number | Unreadable:
    """What the reply of `evaluator` says; a Number stands on that evaluator's own scale."""
    reading = STOCK_READINGS[evaluator]
    if reading == "yes_no":
        return parse_verdict(reply)
    if reading == "number":
        return parse_number(reply, low=1.0, high=5.0)
    if reading == "passing":
        return parse_verdict(reply, key="passing")
    top = STOCK_RESULT_TOP[evaluator]
    return _result(reply, top=top)


def _result(reply: str, *, top: float) -> Number | Unreadable:
    """The points after the one `[RESULT]`, as a share of `top`."""
    text = visible(reply)
    if isinstance(text, Unreadable):
        return text
    markers = list(_RESULT.finditer(text))
    if len(markers) > 1:
        return Unreadable(InvalidReason.UNPARSABLE, "[RESULT] stands there more than once")
    found = _POINTS.match(text, markers[0].end()) if markers else None
    if found is None:
        return no_shape(text)
    points = float(found["points"])
    if not 0.0 <= points <= top:
        return Unreadable(InvalidReason.OUT_OF_RANGE, f"{points:g} is not in [0, {top:g}]")
    return Number(points / top, text[: markers[0].start()].strip())
