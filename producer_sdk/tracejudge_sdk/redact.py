"""Redaction: hooks that see every text of a record before it is encoded, kept, sent or cut.

A hook takes a text, or a text and the name of its field (`record_texts`), and gives the text that may leave. Where it
raises, or gives something else than a text, the field becomes `[redaction failed]` and is counted: a text that was not
looked at never leaves. An id that a hook changes becomes a pseudonym as a whole, the same for the same id and key, so
that what belongs together still does.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from tracejudge_sdk.digests import Digester
from tracejudge_sdk.json_values import CUT_MARK, scrub_text
from tracejudge_sdk.record_texts import Kind, change_texts
from tracejudge_sdk.trace import MAX_NAME_CHARS, Feedback, Record

Hook = Callable[[str], str] | Callable[[str, str], str]

FAILED: Final = "[redaction failed]"
FAILED_NOTE: Final = "redaction_failed"
MOST_CHARS: Final = 1_000_000
"""Of one text; more would be cut anyway, since a record holds less, and a hook must come to an end."""

_TAIL_CHARS: Final = 80
"""What goes from the end of a text that was cut before hooks see it: half a number is no number to a pattern."""

_CUT_TAIL: Final = re.compile(f".{{0,{_TAIL_CHARS}}}{re.escape(CUT_MARK)}", re.DOTALL)


class Redaction:
    """A step over the records that runs the hooks in order."""

    def __init__(self, hooks: Sequence[Hook], digester: Digester) -> None:
        self._hooks = [_with_field(hook) for hook in hooks]
        self._digester = digester

    def __call__(self, record: Record, note: Callable[[str], None]) -> Record:
        """The record with every text as the hooks want it. Never raises."""
        cut = False

        def change(text: str, field: str, kind: Kind) -> str:
            nonlocal cut
            if len(text) > MOST_CHARS:
                cut = True
                text = text[:MOST_CHARS] + CUT_MARK
            clean = _without_cut_end(text, kind)
            try:
                for hook in self._hooks:
                    clean = hook(clean, field)
                    if not isinstance(clean, str):
                        raise TypeError  # caught below, with what else a hook may do
                clean = clean if clean.isascii() else scrub_text(clean)
            except BaseException:  # noqa: BLE001 - whatever a hook raises, its text must not go on, and the thread must
                note(FAILED_NOTE)
                return FAILED
            if clean == text:
                return text
            if kind == "id":
                return self._digester.pseudonym(text)
            return clean[:MAX_NAME_CHARS] if kind == "name" else clean

        changed = change_texts(record, change)
        return changed.model_copy(update={"truncated": True}) if cut and not isinstance(changed, Feedback) else changed


def _without_cut_end(text: str, kind: Kind) -> str:
    if CUT_MARK in text:
        return _CUT_TAIL.sub(CUT_MARK, text)
    if kind == "name" and len(text) == MAX_NAME_CHARS:
        return text[:-_TAIL_CHARS] + CUT_MARK
    return text


def _with_field(hook: Hook) -> Callable[[str, str], Any]:
    try:
        inspect.signature(hook).bind("", "")
    except TypeError:
        one: Any = hook
        return lambda text, _field: one(text)
    except ValueError:  # a built-in without a signature
        pass
    both: Any = hook
    return both  # type: ignore[no-any-return]
