"""The health of every judge in every (environment, app), with or without a rule."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from tracejudge.alerts.series import snapshots
from tracejudge.alerts.series.health import JudgeHealth, JudgePlace
from tracejudge.alerts.series.snapshots import HealthFound, SeriesSnapshot
from tracejudge.alerts.series.watched import RETIRE_AFTER
from tracejudge.scores import Score

MAX_JUDGE_PLACES: Final = 10_000
"""Most (environment, app, JudgeId) whose health is watched: names of applications come from producers."""

_Place = tuple[str, str, str, str]  # the values of a JudgePlace, which is built only where it is needed


class JudgePlaces:
    """The health of judges by JudgePlace."""

    def __init__(self) -> None:
        self._health: dict[_Place, JudgeHealth] = {}
        self._changed: dict[_Place, None] = {}  # since the last snapshot, in order
        self._gone: dict[str, None] = {}  # names of snapshots to be marked as retired

    def __len__(self) -> int:
        return len(self._health)

    def of(self, score: Score) -> JudgeHealth | None:
        """The health that a row is about to change, recorded as changed; None beyond the limit."""
        place = (score.environment, score.app, score.judge_name, score.judge_id)
        health = self._health.get(place)
        if health is None:
            if len(self._health) >= MAX_JUDGE_PLACES:
                return None
            health = self._health[place] = JudgeHealth()
        self._changed[place] = None
        return health

    def at(self, place: JudgePlace) -> JudgeHealth | None:
        """The health in one place; None where no row was folded."""
        return self._health.get(place)

    def before(self, score: Score) -> str | None:
        """The JudgeId that judged last under the row's judge name in its place, other than its own; None for none."""
        here = (score.environment, score.app, score.judge_name)
        others = [
            (one.last_judged_at, judge_id)
            for (*there, judge_id), one in self._health.items()
            if tuple(there) == here and judge_id != score.judge_id and one.last_judged_at is not None
        ]
        return max(others)[1] if others else None

    def retire(self, now: datetime) -> None:
        """Forgets the places without a row for `RETIRE_AFTER`."""
        for place, health in list(self._health.items()):
            if health.last_judged_at is not None and now - health.last_judged_at > RETIRE_AFTER:
                del self._health[place]
                self._changed.pop(place, None)
                self._gone[snapshots.health_name(JudgePlace(*place))] = None

    def snapshot(self, *, changed_only: bool) -> Iterator[SeriesSnapshot]:
        """The state of all places, or of those changed since the last call; places retired since then as RETIRED."""
        gone, chosen = list(self._gone), list(self._changed if changed_only else self._health)
        self._gone.clear()
        self._changed.clear()
        for name in gone:
            yield SeriesSnapshot(name, snapshots.RETIRED)
        for place in chosen:
            yield snapshots.of_health(JudgePlace(*place), self._health[place])

    def restore(self, found: HealthFound) -> None:
        """Continues from a snapshot."""
        self._health[found.place] = found.health
