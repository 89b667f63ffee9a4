"""Head sampling: which traces are logged at all, decided in the service's thread before anything is copied.

A trace is kept where the hash of its id says so, or always: errors, and chosen tags. What is recorded in it is the
chance that this trace had of being kept, whatever its hash: 1 for one that is always kept, the probability for any
other. So 1 / head_probability is how many traces it stands for, and sums weighted by that are right for the whole
traffic, errors and chosen tags included, which are neither counted twice nor counted as rare.

What decides must be known when the trace is logged; it is looked for in what the service handed in, so a tag set later,
by whatever means, keeps nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracejudge_sdk.sampling import HEAD_SALT, keep

ANY_VALUE: Final = "*"

TagRules = Mapping[str, str | Collection[str]]
"""Tag to the value or values with which a trace is always kept; "*" is any value."""


@dataclass(frozen=True)
class HeadSampling:
    """The share of traces that is logged, 0 to 1, by the hash of the trace id, and those that are always logged."""

    probability: float = 1.0
    always_keep_errors: bool = False
    always_keep_tags: TagRules = field(default_factory=dict)

    def decide(self, trace_id: str, fields: Mapping[str, Any]) -> float | None:
        """The chance with which this trace was kept, to be recorded in it; None when it is left out.

        `fields` are the keywords of `log()` as the service gave them: a rule that looks at them must take any type.
        """
        if self._always(fields):
            return 1.0
        return self.probability if keep(trace_id, self.probability, HEAD_SALT) else None

    def _always(self, fields: Mapping[str, Any]) -> bool:
        if self.always_keep_errors:
            status = fields.get("status")
            if status == "error" or (status is None and fields.get("error") is not None):
                return True
        if not self.always_keep_tags:
            return False
        tags = fields.get("tags")
        for name, wanted in self.always_keep_tags.items():
            # A keyword that log() does not know becomes a tag.
            value = tags.get(name) if isinstance(tags, Mapping) else None
            if value is None:
                value = fields.get(name)
            if value is not None and (wanted == ANY_VALUE or _is_one_of(value, wanted)):
                return True
        return False


def faults_of(rules: Any) -> list[str]:
    """What is wrong with the rules for tags; nothing where they can work."""
    if not isinstance(rules, Mapping):
        return [f"always_keep_tags: {type(rules).__name__} is not a mapping of tags to values"]
    return [
        f"always_keep_tags: {name!r:.80}: {values!r:.80} is not a text, a list of texts, or {ANY_VALUE!r} for any value"
        for name, values in rules.items()
        if not isinstance(name, str)
        or not (
            isinstance(values, str)
            or (isinstance(values, Collection) and all(isinstance(value, str) for value in values))
        )
    ]


def _is_one_of(value: Any, wanted: str | Collection[str]) -> bool:
    text = value if isinstance(value, str) else str(value)
    return text == wanted if isinstance(wanted, str) else text in wanted
