"""Finding a few answers among millions: by person, words, outcome and time, the newest first.

Looks at the last day, then at the week before it, then at all the rest, and stops where it has enough: what somebody
looks for is mostly recent. A person is found through a bloom filter, words through the text index (migration 0002).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from tracejudge.scores import TraceKey
from tracejudge.store.connection import Connection, Row
from tracejudge.store.queries import ScoreFilter, TraceFilter
from tracejudge.store.rows import StoredTrace
from tracejudge.store.score_rows import score_conditions
from tracejudge.store.trace_filters import judged_conditions
from tracejudge.store.traces import Traces
from tracejudge.store.values import from_milliseconds

TEXT: Final = "lowerUTF8(concat(query, ' ', ifNull(response, '')))"
"""What the text index is on; another spelling would not use it."""

_SEPARATORS: Final = re.compile(r"[\x00-\x2f:-@\[-`{-\x7f]+")
_STEPS: Final = (timedelta(days=1), timedelta(days=8), None)


def words_of(text: str) -> tuple[str, ...]:
    """The words that the index knows: lower case, cut at every ASCII sign that is no letter or digit.

    Scripts that write no spaces give whole runs of signs; look for a piece of such a run with `contains`.
    """
    return tuple(dict.fromkeys(word for word in _SEPARATORS.split(text.lower()) if word))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which answers: those of `where` that hold every one of `words` in question or answer, and whose live verdict by
    `judge` (any, when None) is `outcome`."""

    where: TraceFilter = field(default_factory=TraceFilter)
    words: tuple[str, ...] = ()
    outcome: Literal["passed", "failed", "invalid"] | None = None
    judge: str | None = None


class Finder:
    """Answers by what is known about them."""

    def __init__(self, connection: Connection, traces: Traces) -> None:
        self._connection = connection
        self._traces = traces

    def find(self, wanted: Wanted, *, limit: int) -> list[StoredTrace]:
        """The newest `limit` answers, the newest first."""
        found: list[Row] = []
        for start, end in self._stretches(wanted.where):
            stretch = replace(wanted, where=replace(wanted.where, start=start, end=end))
            found += self._places(stretch, limit - len(found))
            if len(found) >= limit:
                break
        return self._loaded(found)

    def random(self, wanted: Wanted, *, limit: int, salt: str) -> list[StoredTrace]:
        """`limit` answers in an order that depends on the salt alone: the same for everybody, and no favourite."""
        return self._loaded(self._places(wanted, limit, order="sipHash64(trace_id, {salt:String})", salt=salt))

    def disagreed(self, where: TraceFilter, *, limit: int) -> list[StoredTrace]:
        """The newest answers on which two judges' live verdicts differ."""
        same = ("start", "end", "environment", "app", "version", "category")
        conditions = score_conditions(ScoreFilter(**{name: getattr(where, name) for name in same}))
        conditions.add("outcome != 'invalid'")
        rows = self._connection.query(
            f"SELECT environment, app, trace_id, event_time FROM scores FINAL {conditions} "
            "GROUP BY environment, app, event_time, trace_id HAVING uniqExact(outcome) > 1 "
            f"ORDER BY event_time DESC, trace_id LIMIT {int(limit)}",
            conditions.parameters,
        )
        return self._loaded(rows)

    def _loaded(self, rows: Sequence[Row]) -> list[StoredTrace]:
        """The traces at these places (environment, app, trace id, event time), in their order; one statement."""
        places = {TraceKey(*row[:3]): from_milliseconds(row[3]) for row in rows}
        found = {stored.key: stored for stored in self._traces.at(places)}
        return [found[key] for key in places if key in found]

    def _stretches(self, where: TraceFilter) -> Iterator[tuple[datetime | None, datetime | None]]:
        """The filter's time, cut where a look may stop; the newest first."""
        end = where.end
        newest = self._connection.query("SELECT max(event_time) FROM traces")[0][0]
        last = from_milliseconds(int(newest)) + timedelta(milliseconds=1)
        last = last if end is None else min(end, last)
        for step in _STEPS:
            start = where.start if step is None else last - step
            if start is not None and where.start is not None and start <= where.start:
                start, step = where.start, None
            yield start, end
            if step is None:
                return
            end = start

    def _places(
        self, wanted: Wanted, limit: int, *, order: str = "event_time DESC, trace_id", salt: str = ""
    ) -> list[Row]:
        conditions = judged_conditions(wanted.where, outcome=wanted.outcome, judge=wanted.judge)
        if wanted.words:
            conditions.add(f"hasAllTokens({TEXT}, {{words:Array(String)}})", words=list(wanted.words))
        parameters = {**conditions.parameters, "salt": salt} if salt else conditions.parameters
        return self._connection.query(
            "SELECT environment, app, trace_id, event_time FROM traces FINAL "
            f"{conditions} ORDER BY {order} LIMIT {int(limit)}",
            parameters,
        )
