"""What a line carries beside the wire contract: labels become values, the rest of them and metadata become tags.

Names of tags: a key of `metadata` or `labels` as it stands, keys of objects inside joined by dots (`{"run": {"id": 7}}`
gives `run.id`). Where a tag of that name exists already with another value, the line's own tags first, then metadata,
the newcomer goes by its long name, `metadata.NAME` or `labels.NAME`.
Values become text: texts as they are, numbers, booleans and lists as JSON; null is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tracejudge_sdk.json_values import scrub_surrogates, scrub_text

_MAX_DEPTH: Final = 8  # objects inside each other; what lies deeper is kept as JSON


def label_values(labels: Mapping[str, Any]) -> dict[str, float]:
    """The labels that are a boolean or a finite number, as numbers; 1.0 and 0.0 for yes and no."""
    return {scrub_text(name): float(value) for name, value in labels.items() if _is_label(value)}


def with_tags(tags: Mapping[str, Any], *, metadata: Any, labels: Mapping[str, Any]) -> dict[str, Any]:
    """The line's own tags and those made from metadata and from labels that are no numbers."""
    found = dict(tags)
    if metadata is not None and not isinstance(metadata, dict):
        metadata = {"metadata": metadata}
    _add(found, "metadata", metadata or {})
    _add(found, "labels", {name: value for name, value in labels.items() if not _is_label(value)})
    return found


def _add(tags: dict[str, Any], source: str, values: Mapping[str, Any]) -> None:
    for name, text in _flat(values, "", _MAX_DEPTH):
        if tags.get(name, text) != text:
            name = f"{source}.{name}"
        tags.setdefault(name, text)


def _flat(values: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        name = f"{prefix}{scrub_text(key)}"
        if isinstance(value, dict) and depth > 1:
            yield from _flat(value, f"{name}.", depth - 1)
        elif isinstance(value, str):
            yield name, scrub_text(value)
        elif value is not None:
            yield name, json.dumps(scrub_surrogates(value), ensure_ascii=False)


def _is_label(value: Any) -> bool:
    if isinstance(value, bool):
        return True
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # a whole number beyond what a float holds
        return False
