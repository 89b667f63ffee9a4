"""Which dead letters stop the consumer."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from tracejudge.scores import DeadLetter
from tracejudge_consumer.dead_letter import DeadLetterGuard, DeadLetterLimit, TooManyDeadLetters

LIMIT = DeadLetterLimit(max_share=0.5, window_records=100, min_dead=10)


def letters(value: bytes) -> list[DeadLetter]:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return [
        DeadLetter(
            source="kafka:t", partition=0, offset=offset, key=b"k", value=value, reason="not_json", detail="", at=at
        )
        for offset in range(60)
    ]


def test_tombstones_of_a_compacted_topic_do_not_stop_the_consumer_and_unreadable_records_do() -> None:
    DeadLetterGuard(LIMIT).note(read=80, dead=letters(b""))
    with pytest.raises(TooManyDeadLetters, match="60 of the last 80"):
        DeadLetterGuard(LIMIT).note(read=80, dead=letters(b"{"))
