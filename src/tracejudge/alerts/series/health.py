"""How often a judge fails to judge: a measure of its own, so that its failures never look like a drop in quality."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from tracejudge.scores import Score
from tracejudge.windows import Watermark

UNHEALTHY_ABOVE: Final = 0.20
HEALTHY_UP_TO: Final = 0.10  # half of the above: a share that wavers around the limit must not flap
MIN_ROWS: Final = 20
STANDS_BESIDE: Final = timedelta(days=7)
"""So long before a fall a change of the judge's model may have to do with it."""

_BIN_S: Final = 300
_BINS: Final = 12  # one hour


class InvalidShare:
    """The share of invalid rows among the recent ones of a judge in an (environment, app).

    Recent: the last hour of event time, or the last 20 rows where an hour holds fewer. Kept in bins of five minutes, of
    which there are never more than 12 + 20.
    """

    __slots__ = ("_bins", "_watermark", "invalid", "rows", "unhealthy")

    def __init__(self) -> None:
        self._bins: list[list[int]] = []  # number of the bin since 1970, rows, invalid rows
        self._watermark = Watermark()
        self.rows = 0  # recent ones, settled or not
        self.invalid = 0  # of these, that could not be judged
        self.unhealthy = False

    def add(self, *, invalid: bool, event_time: datetime, judged_at: datetime) -> bool:
        """Counts a row; True when it turned the judge unhealthy or healthy again."""
        self._watermark = self._watermark.seen(event_time, arrived_at=judged_at)
        at = self._watermark.at or judged_at
        number, bins = int(at.timestamp()) // _BIN_S, self._bins
        if not bins or number > bins[-1][0]:
            bins.append([number, 0, 0])
        latest = bins[-1]
        latest[1] += 1
        latest[2] += invalid
        self.rows += 1
        self.invalid += invalid
        while bins[0][0] <= latest[0] - _BINS and self.rows - bins[0][1] >= MIN_ROWS:
            _, rows, failed = bins.pop(0)
            self.rows -= rows
            self.invalid -= failed
        if self.rows < MIN_ROWS:
            return False
        limit = HEALTHY_UP_TO if self.unhealthy else UNHEALTHY_ABOVE
        before, self.unhealthy = self.unhealthy, self.invalid > limit * self.rows
        return before != self.unhealthy

    @property
    def value(self) -> float | None:
        """Invalid among recent rows; None when there are fewer than 20."""
        return self.invalid / self.rows if self.rows >= MIN_ROWS else None

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        at = self._watermark.at
        return {
            "bins": [list(row) for row in self._bins],
            "watermark": at.isoformat() if at is not None else None,
            "unhealthy": self.unhealthy,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> InvalidShare:
        share = cls()
        share._bins = [list(row) for row in state["bins"]]
        share.rows = sum(row[1] for row in share._bins)
        share.invalid = sum(row[2] for row in share._bins)
        at = state["watermark"]
        share._watermark = Watermark(datetime.fromisoformat(at)) if at is not None else Watermark()
        share.unhealthy = state["unhealthy"]
        return share


class JudgePlace(NamedTuple):
    """What has a health of its own: a judge in an application of an environment."""

    environment: str
    app: str
    judge_name: str
    judge_id: str


class ModelChange(NamedTuple):
    """The provider answered with another model or fingerprint than for the row before."""

    before: tuple[str, str]
    now: tuple[str, str]
    at: datetime

    def to_state(self) -> list[object]:
        """JSON values."""
        return [list(self.before), list(self.now), self.at.isoformat()]

    def numbers(self) -> dict[str, object]:
        """JSON values for evidence."""
        named = {"before": self.before, "now": self.now}
        told = {what: {"model": model[:80], "fingerprint": mark[:40]} for what, (model, mark) in named.items()}
        return {**told, "at": self.at.isoformat(timespec="milliseconds")}


class JudgeHealth:
    """The invalid share of a judge in one place, with what its events need."""

    __slots__ = ("change", "events", "heuristic", "last_judged_at", "model", "share")

    def __init__(self) -> None:
        self.share = InvalidShare()
        self.model: tuple[str, str] | None = None  # as reported last: name and fingerprint
        self.change: ModelChange | None = None  # the latest
        self.events = 0  # so far: numbers them
        self.heuristic = False
        self.last_judged_at: datetime | None = None

    def fold(self, score: Score) -> bool:
        """Counts a row; True when it turned the judge unhealthy or healthy again."""
        self.heuristic = "heuristic" in score.flags
        if self.last_judged_at is None or score.judged_at > self.last_judged_at:
            self.last_judged_at = score.judged_at
        if score.model_reported or score.fingerprint:
            model = (score.model_reported, score.fingerprint)
            if self.model is not None and model != self.model:
                self.change = ModelChange(self.model, model, score.judged_at)
            self.model = model
        return self.share.add(invalid=not score.outcome.settled, event_time=score.event_time, judged_at=score.judged_at)

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        return {
            "share": self.share.to_state(),
            "events": self.events,
            "heuristic": self.heuristic,
            "last_judged_at": self.last_judged_at.isoformat() if self.last_judged_at is not None else None,
            "model": None if self.model is None else list(self.model),
            "change": None if self.change is None else self.change.to_state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> JudgeHealth:
        health = cls()
        health.share = InvalidShare.from_state(state["share"])
        health.events, health.heuristic = state["events"], state["heuristic"]
        at = state["last_judged_at"]
        health.last_judged_at = datetime.fromisoformat(at) if at is not None else None
        model, change = state.get("model"), state.get("change")  # older snapshots have none
        health.model = None if model is None else (model[0], model[1])
        if change is not None:
            before, now, at = change
            health.change = ModelChange((before[0], before[1]), (now[0], now[1]), datetime.fromisoformat(at))
        return health
