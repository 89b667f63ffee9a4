"""Which models and fingerprints the judges' providers reported with live scores, and since when."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tracejudge.scores import LIVE_RUN, JudgeId
from tracejudge.store.connection import Connection
from tracejudge.store.values import bound_instant, from_microseconds

_OLDEST_TRACE: Final = timedelta(days=7)
"""How much older than its verdict a trace may be to be looked at: what bounds the parts that are read."""


class ReportedModel(NamedTuple):
    """One model and fingerprint behind a JudgeId, as its provider named them."""

    judge_id: JudgeId
    model: str
    fingerprint: str
    first_at: datetime  # judged_at of the first score
    scores: int


def reported_models(connection: Connection, since: datetime) -> list[ReportedModel]:
    """The models and fingerprints reported with live scores judged from `since` on, in order of first appearance."""
    rows = connection.query(
        "SELECT judge_id, model_reported, fingerprint, min(judged_at) AS first_at, count() FROM scores "
        "WHERE run_id = {run_id:String} AND judged_at >= {since:DateTime64(6, 'UTC')} "
        "AND event_time >= {oldest:DateTime64(3, 'UTC')} AND model_reported != '' "
        "GROUP BY judge_id, model_reported, fingerprint ORDER BY first_at, judge_id, model_reported, fingerprint",
        {
            "run_id": LIVE_RUN,
            "since": bound_instant("since", since),
            "oldest": bound_instant("oldest", since - _OLDEST_TRACE),
        },
    )
    return [ReportedModel(JudgeId(row[0]), row[1], row[2], from_microseconds(row[3]), int(row[4])) for row in rows]
