"""Commits the offsets of finished records at an interval, and counts the outcome of each commit."""

from __future__ import annotations

from tracejudge.clock import Clock
from tracejudge_consumer.intake import Intake
from tracejudge_consumer.offsets import OffsetBook
from tracejudge_consumer.stages.checkpoints import Checkpoint
from tracejudge_consumer.watching.metrics import Metrics


class Commits:
    """Commits what the OffsetBook allows. Used by the intake thread."""

    def __init__(
        self,
        *,
        intake: Intake,
        book: OffsetBook,
        interval_s: float,
        clock: Clock,
        metrics: Metrics,
        checkpoint: Checkpoint,
    ) -> None:
        self.accepted = 0
        """How many commits the queue accepted."""
        self._intake = intake
        self._book = book
        self._interval_s = interval_s
        self._clock = clock
        self._metrics = metrics
        self._checkpoint = checkpoint
        self._at = clock.monotonic()
        self._refused = 0

    @property
    def age_s(self) -> float:
        """Seconds since the last accepted commit, or since there was nothing to commit."""
        return self._clock.monotonic() - self._at

    def commit_when_due(self) -> None:
        if self.age_s >= self._interval_s:
            self.commit()

    def commit(self) -> bool:
        """Commits what is finished. False when the queue did not answer: try again later.

        True as well for a commit that was refused because the partitions are another consumer's: trying again is vain.
        """
        now = self._clock.monotonic()
        self._book.advance(self._intake.positions())
        offsets = self._book.committable()
        if not offsets:
            self._at = now
            return True
        accepted = self._intake.commit(offsets)
        if accepted:
            self._book.committed(offsets)
            self.accepted += 1
            self._at = now
        refused = self._intake.refused_commits - self._refused
        self._refused += refused
        self._metrics.commits.labels("accepted" if accepted else "refused" if refused else "failed").inc()
        if accepted:
            self._checkpoint("committed")
        return accepted or refused > 0
