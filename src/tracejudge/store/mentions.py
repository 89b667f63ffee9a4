"""Ids that stand inside something: in the bytes of dead letters, and in what is kept as JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from tracejudge.store.connection import Connection
from tracejudge.store.mutations import Mutations
from tracejudge.store.table import Where
from tracejudge.store.tombstones import Kind

_TEXTS: Final = (("alert_events", "evidence"), ("alert_snapshots", "state"), ("runs", "manifest"))
_REPLACEMENT: Final = "forgotten"


class Mentions:
    """Takes ids out of the places where no column names them."""

    def __init__(self, connection: Connection, mutations: Mutations) -> None:
        self._connection = connection
        self._mutations = mutations

    def dead_letters(self, kind: Kind, values: Sequence[str]) -> Counter[str]:
        """Letters whose bytes name the id in its own field, whether or not they are JSON to the end."""
        rows: Counter[str] = Counter()
        for first in range(0, len(values), 50):
            named = "|".join(sorted({form for value in values[first : first + 50] for form in json_forms(value)}))
            pattern = rf'"{kind}_id"\s*:\s*(?:{named})'
            chosen = Where().add("match(value, {pattern:String})", pattern=pattern)
            if kind == "trace":  # the key of a record is its trace's id
                chosen = Where().add(
                    "(match(value, {pattern:String}) OR ifNull(key, '') IN {keys:Array(String)})",
                    pattern=pattern,
                    keys=[value for value in values[first : first + 50] if value],
                )
            rows["dead_letters"] += self._mutations.remove("dead_letters", chosen)
        return rows

    def texts(self, ids: Sequence[str]) -> Counter[str]:
        """Replaces ids in what is kept as JSON: the evidence of alerts, snapshots, the manifests of runs."""
        rows: Counter[str] = Counter()
        for table, column in _TEXTS:
            for first in range(0, len(ids), 100):
                quoted = [json.dumps(one, ensure_ascii=False) for one in ids[first : first + 100]]
                seen = self._connection.query(
                    f"SELECT arrayFilter(q -> position({column}, q) > 0, {{quoted:Array(String)}}) AS q "
                    f"FROM {table} WHERE notEmpty(q)",
                    {"quoted": quoted},
                )
                for one in sorted({text for row in seen for text in row[0]}):
                    chosen = Where().add(f"position({column}, {{quoted:String}}) > 0", quoted=one)
                    rows[table] += self._mutations.change(
                        table, f"{column} = replaceAll({column}, {{quoted:String}}, '\"{_REPLACEMENT}\"')", chosen
                    )
        return rows


def json_forms(value: str) -> Iterator[str]:
    """The regular expressions of a text's two usual spellings in JSON."""
    for ascii_only in (False, True):
        # RE2 takes a backslash before punctuation only, and the underscore is none.
        yield re.sub(r"([!-/:-@\[-^`{-~])", r"\\\1", json.dumps(value, ensure_ascii=ascii_only))
