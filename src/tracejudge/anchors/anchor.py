"""One frozen trace with what is known to be right about it, and a set of them that cannot change unnoticed.

An anchor's id is the hash of its text and its labels, and the set's id ends in the hash of its anchors' ids: whoever
changes a letter makes another anchor, and the set says so when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from tracejudge.errors import CheckFailed, SettingsError
from tracejudge_sdk.codec import decode, encode
from tracejudge_sdk.trace import Trace

MAX_ANCHOR_BYTES = 4_000_000
"""Of one trace; an anchor is judged whole, so nothing of it is cut."""


class AnchorsChanged(CheckFailed):
    """The stored anchors differ from those that were frozen."""


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """A trace as it was frozen, and the right verdict by criterion where somebody knows it.

    `record` is the trace in the wire's form: a text that stays the same whatever later releases add to a trace.
    """

    record: str
    labels: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: Trace, labels: Mapping[str, bool] | None = None) -> Anchor:
        """Freezes a trace. Raises RecordTooLarge for one above 4 MB."""
        return cls(record=encode(trace, max_bytes=MAX_ANCHOR_BYTES).decode(), labels=dict(labels or {}))

    @cached_property
    def case_id(self) -> str:
        """32 hex digits of its content."""
        known = json.dumps(dict(self.labels), sort_keys=True, separators=(",", ":"))
        return _hash(f"{len(self.record)}:{self.record}{known}")[:32]

    @cached_property
    def trace(self) -> Trace:
        """The trace, as this release reads it. Raises RecordError."""
        record = decode(self.record.encode())
        if not isinstance(record, Trace):
            raise AnchorsChanged(f"anchor {self.case_id}: holds a {record.kind}, which is no trace")
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorSet:
    """Anchors under a name. `case_ids` are all that it was frozen with; some may have been forgotten since."""

    name: str
    case_ids: tuple[str, ...]
    anchors: tuple[Anchor, ...]
    built_at: datetime
    origin: Mapping[str, object] = field(default_factory=dict)  # how it was chosen, as JSON values

    @classmethod
    def freeze(
        cls, name: str, anchors: Sequence[Anchor], *, built_at: datetime, origin: Mapping[str, object] | None = None
    ) -> AnchorSet:
        """A set of these anchors; equal ones count once. Raises SettingsError without any, or for a name with "@"."""
        by_id = {anchor.case_id: anchor for anchor in anchors}
        if not by_id:
            raise SettingsError([f"anchors {name!r}: there is nothing to freeze"])
        if not name or "@" in name or len(name) > 64 or not name.isprintable():
            raise SettingsError([f"anchors: {name!r} is not a name of 1 to 64 printable characters without @"])
        case_ids = tuple(sorted(by_id))
        return cls(
            name=name,
            case_ids=case_ids,
            anchors=tuple(by_id[case_id] for case_id in case_ids),
            built_at=built_at,
            origin=dict(origin or {}),
        )

    @property
    def set_id(self) -> str:
        """`NAME@` and twelve hex digits of its content."""
        return set_id_of(self.name, self.case_ids)

    @property
    def gone(self) -> int:
        """Anchors that are no longer there: `tracejudge forget` took them."""
        return len(self.case_ids) - len(self.anchors)

    def labelled(self, criterion: str) -> Mapping[str, bool]:
        """By anchor, the right verdict where it is known."""
        return {one.case_id: one.labels[criterion] for one in self.anchors if criterion in one.labels}


def set_id_of(name: str, case_ids: Sequence[str]) -> str:
    """The id of a set with these anchors."""
    return f"{name}@{_hash(','.join(sorted(case_ids)))[:12]}"


def check_set(found: AnchorSet, *, set_id: str) -> AnchorSet:
    """The set, when it is what its id says. Raises AnchorsChanged otherwise."""
    if found.set_id != set_id:
        raise AnchorsChanged(f"anchors {set_id}: the list of its anchors was changed in the store; build a new set")
    strangers = {anchor.case_id for anchor in found.anchors} - set(found.case_ids)
    if strangers:
        raise AnchorsChanged(
            f"anchors {set_id}: {len(strangers)} of {len(found.anchors)} anchors were changed in the store "
            f"(such as {min(strangers)}); build a new set"
        )
    return found


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
