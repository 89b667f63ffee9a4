"""Records that cannot be read: kept whole with the reason, and too many of them stop the consumer.

A dead letter is a final answer to one bad record. A stream of them is not: it means that a producer or this consumer
was deployed wrong, and going on would drain the topic into the dead letters. `DeadLetterGuard` looks at the share among
the last records, those of earlier processes included, and stops loudly; the batch that went over the limit is not
committed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tracejudge.errors import CheckFailed
from tracejudge.scores import DeadLetter
from tracejudge_consumer.intake import RawRecord
from tracejudge_sdk.errors import RecordError


class TooManyDeadLetters(CheckFailed):
    """The share of unreadable records says that something is deployed wrong; nothing more is taken on."""

    def __init__(self, *, dead: int, of: int, reasons: Counter[str], example: DeadLetter) -> None:
        listed = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common(3))
        super().__init__(
            f"{dead} of the last {of} records cannot be read ({listed}); for example {example.source} partition "
            f"{example.partition} offset {example.offset}: {example.detail}. Stopped, and these offsets are not "
            "committed: correct the producer or upgrade this consumer and start it again. What is there counts for a "
            "day, until `tracejudge dead-letters replay` or `drop` says what becomes of it, or max_dead_share is raised"
        )
        self.dead = dead
        self.of = of


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterLimit:
    """When dead letters stop the consumer: `max_share` of the last `window_records`, and at least `min_dead` of them.

    `max_share` 1.0 never stops it.
    """

    max_share: float = 0.5
    window_records: int = 1_000
    min_dead: int = 100

    def __post_init__(self) -> None:
        if not 0.0 < self.max_share <= 1.0:
            raise ValueError(f"max_share: {self.max_share!r} is not in (0, 1]")
        if self.window_records < 1 or self.min_dead < 1:
            raise ValueError("window_records and min_dead: below 1")


class DeadLetterGuard:
    """Watches the share of dead letters among the last records. Not thread-safe."""

    def __init__(self, limit: DeadLetterLimit) -> None:
        self._limit = limit
        self._batches: deque[tuple[int, Counter[str]]] = deque()
        self._read = 0
        self._reasons: Counter[str] = Counter()

    def remember(self, shares: Sequence[tuple[int, int]]) -> None:
        """What was read before this process began, in the order of time: (records read, dead letters among them).

        Raises nothing: a limit that was reached by others stops this process at its own first dead letter. So a
        supervisor that restarts it over and over drains no topic.
        """
        for read, dead in shares:
            self._add(read, Counter({"before this start": dead}))

    def note(self, *, read: int, dead: Sequence[DeadLetter]) -> None:
        """`read` records were looked at, of which `dead` could not be read. Raises TooManyDeadLetters.

        Records without a value do not count: they are what a compacted topic keeps of deleted keys, and lose nothing.
        """
        dead = [letter for letter in dead if letter.value]
        self._add(read, Counter(letter.reason for letter in dead))
        count = self._reasons.total()
        if dead and count >= self._limit.min_dead and count > self._limit.max_share * self._read:
            raise TooManyDeadLetters(dead=count, of=self._read, reasons=self._reasons, example=dead[-1])

    def _add(self, read: int, reasons: Counter[str]) -> None:
        self._batches.append((read, reasons))
        self._read += read
        self._reasons += reasons
        # Whole batches leave, as long as the window stays covered.
        while self._read - self._batches[0][0] >= self._limit.window_records:
            old_read, old_reasons = self._batches.popleft()
            self._read -= old_read
            self._reasons -= old_reasons


def dead_letter(record: RawRecord, error: RecordError, *, at: datetime) -> DeadLetter:
    """The record as it came, with the reason why it cannot be read."""
    return DeadLetter(
        source=record.source,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=record.headers,
        reason=error.reason,
        detail=str(error),
        at=at,
    )
