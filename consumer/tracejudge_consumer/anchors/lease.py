"""One process at a time asks a judge about a set of anchors: the leading `watch`, or a person's round by hand.

Two rounds beside each other would pay for every verdict twice, and be two rounds where one was wanted.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tracejudge.clock import SystemClock
from tracejudge.scores import JudgeId
from tracejudge.store import Store
from tracejudge_consumer.alerting.leadership import Leadership

TTL_S: Final = 300.0
"""Longer than one question to a judge may take: the lease is renewed between them. So long a round that was killed
waits for the next process to go on with it."""


@contextmanager
def anchor_lease(store: Store, set_id: str, judge_id: JudgeId) -> Iterator[Leadership | None]:
    """The right to judge this set by this judge, given back at the end; None where another process has it. Ask `keep`
    between questions: without it the round is to end. Raises ServiceUnavailable."""
    holder = uuid.uuid4().hex  # not of the process: two rounds of one are two as well
    lease = Leadership(store, f"anchors:{set_id}:{judge_id}", holder=holder, ttl_s=TTL_S, clock=SystemClock())
    if not lease.take():
        yield None
        return
    try:
        yield lease
    finally:
        lease.give_back()
