"""`cached_verdicts`: settled verdicts by content, judge and repeat, kept 30 days: equal content is paid for once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tracejudge.store.connection import Connection
from tracejudge.store.values import text, whole

Key = tuple[str, str, int]
"""Content hash, JudgeId, repeat."""

# `row_version` is the store's own: 2^63 less its clock, so that of two verdicts the one that came first stays.
_COLUMNS: Final = ("content_hash", "judge_id", "repeat", "verdict")
_TYPES: Final = ("String", "LowCardinality(String)", "UInt16", "String")


class VerdictCache:
    """Verdicts as texts, which only their writer reads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, keys: Collection[Key]) -> dict[Key, str]:
        """The cached verdicts among `keys`; one statement for any number of keys."""
        if not keys:
            return {}
        wanted = set(keys)
        # Not FINAL: it took up to half as much again, and what of several rows of a key counts is said here.
        rows = self._connection.query(
            "SELECT content_hash, judge_id, repeat, verdict FROM cached_verdicts "
            "WHERE content_hash IN {hashes:Array(String)} AND judge_id IN {judges:Array(String)} "
            "ORDER BY row_version DESC LIMIT 1 BY content_hash, judge_id, repeat",
            {"hashes": sorted({key[0] for key in wanted}), "judges": sorted({key[1] for key in wanted})},
        )
        found = {(row[0], row[1], int(row[2])): row[3] for row in rows}
        return {key: found[key] for key in wanted if key in found}

    def put(self, verdicts: Mapping[Key, str]) -> None:
        """Keeps verdicts; safe to repeat, and the first of a key stays."""
        if not verdicts:
            return
        rows = [
            (
                text("content_hash", digest),
                text("judge_id", judge_id),
                whole("repeat", repeat, high=2**16 - 1),
                text("verdict", verdict),
            )
            for (digest, judge_id, repeat), verdict in verdicts.items()
        ]
        self._connection.insert("cached_verdicts", _COLUMNS, _TYPES, rows)
