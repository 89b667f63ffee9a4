"""Answers that two judges judged: what bridges the baseline of the old one to the new."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tracejudge.scores import FEEDBACK_RUN, LIVE_RUN, MANUAL_RUN, JudgeId
from tracejudge.store.connection import Connection
from tracejudge.store.slice_filter import slice_of
from tracejudge.store.table import Where
from tracejudge.store.values import bound_instant

LOOK_BACK: Final = timedelta(days=60)


class PairSums(NamedTuple):
    """With d = new - old verdict on an answer and w its weight under the old judge: how many answers, and sums. Copies
    of an answer are one, with all their weight."""

    n: int
    w: float
    wd: float
    w2: float
    w2d: float
    w2d2: float


def pair_sums(
    connection: Connection,
    *,
    old: JudgeId,
    new: JudgeId,
    environment: str,
    app: str,
    group: Mapping[str, str],
    before: datetime,
    unfair: Collection[str] = (),
) -> PairSums:
    """Sums over the live traces that both judges settled: of those that the old judge settled in the 60 days before.

    The new one in any run but those of complaints, of single traces and `unfair` ones, which are no fair choice; also
    under another name, as a judge on trial has: what makes a judge is the hash in its JudgeId. Its first verdict on a
    trace counts.
    """
    times = (
        "event_time >= {since:DateTime64(3, 'UTC')} AND judged_at < {before:DateTime64(6, 'UTC')} "
        "AND environment = {environment:String} AND app = {app:String} AND outcome IN ('passed', 'failed')"
    )
    where = Where().add("judge_name = {old_name:String} AND judge_id = {old:String} AND run_id = {live:String}")
    # Rarer ones are no observation to alerts either (alerts.state.SMALLEST_PROBABILITY), and 0 has no weight at all.
    where.add("inclusion_probability >= 1e-7")
    slice_of(where, group, since="event_time >= {since:DateTime64(3, 'UTC')}")
    rows = connection.query(
        "SELECT count(), sum(w), sum(w * d), sum(w * w), sum(w * w * d), sum(w * w * d * d) FROM ("
        "SELECT sum(1 / inclusion_probability) AS w, "
        "sum((toInt8(b.passed) - toInt8(outcome = 'passed')) / inclusion_probability) / w AS d FROM ("
        "SELECT event_time, trace_id, outcome, inclusion_probability, content_hash FROM scores FINAL "
        f"{where} AND {times}) AS a INNER JOIN ("
        "SELECT event_time, trace_id, argMin(outcome, (judged_at, run_id)) = 'passed' AS passed FROM scores FINAL "
        f"WHERE endsWith(judge_id, {{hash:String}}) AND run_id NOT IN {{unfair:Array(String)}} AND {times} "
        "GROUP BY event_time, trace_id) AS b USING (event_time, trace_id) "
        "GROUP BY content_hash, if(content_hash = '', trace_id, ''))",
        {
            **where.parameters,
            "old_name": old.rpartition("@")[0],
            "old": old,
            "live": LIVE_RUN,
            "hash": "@" + new.rpartition("@")[2],
            "unfair": [FEEDBACK_RUN, MANUAL_RUN, *unfair],
            "since": bound_instant("since", before - LOOK_BACK)[:-3],
            "before": bound_instant("before", before),
            "environment": environment,
            "app": app,
        },
    )
    n, *sums = rows[0]
    w, wd, w2, w2d, w2d2 = (float(value) for value in sums)
    return PairSums(int(n), w, wd, w2, w2d, w2d2)
