"""Why a judge had nothing to say: reasons with counts, and where to look when nearly all traces lack the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracejudge.counted import counted
from tracejudge_consumer.settings import Settings
from tracejudge_consumer.terminal.rendering import harmless, ident

NEARLY_ALL: Final = 0.9
"""Of a judge's traces: with fewer it is the traffic that lacks something, and not what was set."""

_MOST: Final = 5
_KEYS: Final = {
    "no_passage_text": "source_nodes",
    "no_context": "source_nodes",
    "no_response": "response",
    "no_query": "query",
    "no_reference": "reference",
    "no_expected_ids": "expected_ids",
    "no_latency_ms": "latency_ms",
}
_WHAT: Final = {"source_nodes": "the text of a passage", "response": "a response", "query": "a question"}
_MORE: Final = {
    "no_passage_text": ': its `text` is a path within each passage; of plain texts, each = "text"; of ids alone, '
    "`[intake] resolve_nodes`",
    "no_context": ": the path to the list of passages",
}


def reasons_in_words(reasons: Mapping[str, int]) -> str:
    """The most frequent first: `3031 no_passage_text, 2 language`."""
    listed = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{number} {harmless(reason, limit=60) or 'without a reason'}" for reason, number in listed[:_MOST]]
    rest = sum(number for _, number in listed[_MOST:])
    return ", ".join([*told, f"{rest} of other reasons"] if rest else told)


def lacking_hint(judge: str, reasons: Mapping[str, int], *, judged: int, settings: Settings) -> str | None:
    """Which key to look at, where nearly all of what the judge was given lacked one field; None where that is not so.

    `judged` counts the judge's scores beside the traces that `reasons` counts.
    """
    by_key: dict[str, int] = {}
    for reason, number in reasons.items():
        if reason in _KEYS:
            by_key[_KEYS[reason]] = by_key.get(_KEYS[reason], 0) + number
    whole = judged + sum(reasons.values())
    key = max(by_key, key=by_key.__getitem__, default=None)
    if key is None or by_key[key] < NEARLY_ALL * whole:
        return None
    reason = max((one for one in reasons if _KEYS.get(one) == key), key=reasons.__getitem__)
    mapping = settings.intake.mapping
    head = f"{by_key[key]} of {counted(whole, 'trace')} of {ident(judge)} came without {_WHAT.get(key, key)}"
    if mapping is None:
        return (
            f"{head}: check `{key}` in the traces your service logs; `tracejudge contract check` shows what is missing"
        )
    is_set = "check" if getattr(mapping, key) is not None else "set"
    try_it = "`tracejudge ingest --dry-run FILE` shows what a mapping finds"
    return f"{head}: {is_set} {key} of [intake.mapping]{_MORE.get(reason, '')}; {try_it}"
