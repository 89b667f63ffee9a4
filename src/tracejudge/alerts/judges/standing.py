"""The state of a judge on its anchors: its reference, its last round, and the two series made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.judges.flips import Flips, flips
from tracejudge.alerts.rules.rule import RULE, DriftRule, MinimumRule, Rule
from tracejudge.alerts.series.state import Series
from tracejudge.anchors import AnchorRound, Verdict
from tracejudge.anchors.agreement import Agreement, agreement, pass_share
from tracejudge.scores import JudgeId

JUDGE_DRIFT_RULE: Final = "judge-drift"
"""The rule named in events about a judge that moved; no user's rule may take this name."""

Against = Literal["reference", "labels"]
AGAINST: Final[tuple[Against, ...]] = ("reference", "labels")
"""What a verdict on an anchor is held against: the judge's own first one, and what people say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftPolicy:
    """Settings of judge drift: the promise about judges, and what becomes of quality alerts while a judge has moved.

    `agreement` is the share of anchors on which a steady judge says the same again; None: learned from its rounds.
    `asked` holds the JudgeIds of which an alert asks for a round: for others there is nothing to wait for.
    """

    false_alarms: str = "1 per 30d"
    agreement: float | None = None
    on_judge_drift: Literal["mark", "hold"] = "mark"
    asked: frozenset[str] = frozenset()

    def rule(self, judge_name: str, against: Against) -> Rule:
        """The rule of a series. A given agreement is about the judge with itself: how often it is right is learned."""
        common: dict[str, Any] = {
            "name": JUDGE_DRIFT_RULE,
            "judge": judge_name,
            "false_alarms": self.false_alarms,
            "no_data_after": "never",
        }
        if self.agreement is not None and against == "reference":
            return MinimumRule(minimum=self.agreement, **common)
        return DriftRule(type="drift", **common)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A judge's agreement on its anchors as of its last round."""

    judge_id: str
    moved: bool
    set_id: str
    against: Against
    now: Agreement
    before: float | None  # the share it agreed with until it moved, or has agreed with so far
    passes: Agreement  # of the anchors that the reference has
    passed: Agreement  # the reference itself, on the same anchors
    at: datetime
    since: datetime | None  # about when it moved
    event_id: str | None  # of the event that said so
    flips: tuple[int, int] | None = None  # anchors that fail now, and pass now, where these told that it moved
    model: str = ""  # "X instead of Y", where another model or fingerprint answers than at first

    def numbers(self) -> dict[str, object]:
        """JSON values for evidence."""
        flipped = {} if self.flips is None else {"now_failed": self.flips[0], "now_passed": self.flips[1]}
        return {
            "state": "moved" if self.moved else "steady",
            "anchors": self.set_id,
            "against": self.against,
            "n": self.now.n,
            "agreement": self.now.value,
            "low": self.now.low,
            "high": self.now.high,
            "agreement_before": self.before,
            "passes": self.passes.value,
            "passes_before": self.passed.value,
            "at": self.at.isoformat(),
            "moved_about": self.since.isoformat() if self.since is not None else None,
            "event_id": self.event_id,
            "model": self.model or None,
            **flipped,
        }


@dataclass(slots=True, kw_only=True)
class WatchedJudge:
    """The state of one (set, JudgeId)."""

    last: AnchorRound
    usual: tuple[str, str]  # model and fingerprint of the first round
    reference: dict[str, bool] = field(default_factory=dict)
    series: dict[Against, Series] = field(default_factory=dict)
    before: dict[Against, tuple[int, int]] = field(default_factory=dict)  # agreed, of how many, in rounds until now
    flips: Flips = field(default_factory=Flips)  # while the agreement with itself is not known

    @classmethod
    def first(cls, one: AnchorRound, policy: DriftPolicy) -> WatchedJudge:
        """A judge whose first round this is: its series against the reference begins with the next one."""
        watched = cls(last=one, usual=(one.model_reported, one.fingerprint))
        watched.series_of("reference", policy)
        return watched

    def begin(self, one: AnchorRound) -> None:
        """Takes a round as the last one; its verdicts on anchors that have none yet become the reference of these."""
        self.last = one
        for case, passed in one.settled.items():
            self.reference.setdefault(case, passed)

    def remember(self, against: Against) -> None:
        """Adds the rows folded so far to what was before; call it before those of a round. A judge that has moved adds
        nothing to how it was."""
        series = self.series[against]
        if series.alert is None:
            self.before[against] = (series.sums.passed, series.sums.n)

    def series_of(self, against: Against, policy: DriftPolicy) -> Series:
        """The series, made when there is none yet."""
        found = self.series.get(against)
        if found is None:
            key, rule = key_of(self.last, against), policy.rule(self.last.judge_name, against)
            found = self.series[against] = Series(key=key, rule=rule)
        return found

    def open_event(self, against: Against) -> str | None:
        """The event id of what is open: the judge moved by this measure."""
        series, early = self.series[against], self.flips.moved
        if series.alert is not None:
            return series.alert.event_id
        return early.event_id if early is not None and against == "reference" else None

    def accept(self, against: Against, policy: DriftPolicy) -> None:
        """Takes the judge's last round as the new reference for the next ones."""
        self.series.pop(against).close()
        self.before.pop(against, None)
        self.series_of(against, policy)
        self.usual = (self.last.model_reported, self.last.fingerprint)
        if against == "reference":
            self.reference.update(self.last.settled)
            self.flips = Flips()

    def standing(self, against: Against) -> Standing | None:
        """None before there is anything to compare."""
        series = self.series[against]
        verdicts, right = self.last.settled, self._right(against)
        now = agreement(verdicts, right)
        alert, early = series.alert, self.flips.moved if against == "reference" else None
        if (series.sums.n == 0 and early is None) or now.n == 0:
            return None
        since = alert.start.at if alert is not None else early.at if early is not None else None
        return Standing(
            judge_id=self.last.judge_id,
            moved=since is not None,
            set_id=self.last.set_id,
            against=against,
            now=now,
            before=self._before(against),
            passes=pass_share(verdicts, among=self.reference),
            passed=pass_share(self.reference, among=verdicts),
            at=self.last.finished_at or self.last.round_at,
            since=since,
            event_id=self.open_event(against),
            flips=flips(self.reference, verdicts) if early is not None else None,
            model=self._model(),
        )

    def _right(self, against: Against) -> Mapping[str, bool]:
        return self.reference if against == "reference" else self.last.expected

    def _before(self, against: Against) -> float | None:
        agreed, n = self.before.get(against, (0, 0))
        return agreed / n if n else None

    def _model(self) -> str:
        now, usual = (self.last.model_reported, self.last.fingerprint), self.usual
        return f"{_named(*now)} instead of {_named(*usual)}" if now != usual and any(now) and any(usual) else ""

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        last = self.last
        return {
            "last": {
                "set_id": last.set_id,
                "judge_name": last.judge_name,
                "judge_id": last.judge_id,
                "round_at": last.round_at.isoformat(),
                "cause": last.cause,
                "finished_at": last.finished_at.isoformat() if last.finished_at is not None else None,
                "heuristic": last.heuristic,
                "model_reported": last.model_reported,
                "fingerprint": last.fingerprint,
                "verdicts": {case: list(one) for case, one in last.verdicts.items()},
            },
            "usual": list(self.usual),
            "reference": self.reference,
            "before": {against: list(one) for against, one in self.before.items()},
            "flips": self.flips.to_state(),
            "series": {
                against: {"rule": series.rule.model_dump(mode="json"), "state": series.to_state()}
                for against, series in self.series.items()
            },
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], policy: DriftPolicy) -> tuple[WatchedJudge, dict[Against, Series]]:
        """The judge, and the series whose rule asks another question now: these begin anew."""
        values = dict(state["last"])
        for name in ("round_at", "finished_at"):
            values[name] = None if values[name] is None else datetime.fromisoformat(values[name])
        values["verdicts"] = {case: Verdict(*one) for case, one in values["verdicts"].items()}
        last = AnchorRound(**{**values, "judge_id": JudgeId(values["judge_id"])})
        watched = cls(last=last, usual=(state["usual"][0], state["usual"][1]), reference=dict(state["reference"]))
        watched.before = {against: (one[0], one[1]) for against, one in state["before"].items()}
        watched.flips = Flips.from_state(state.get("flips"))
        other: dict[Against, Series] = {}
        for against in AGAINST:
            stored = state["series"].get(against)
            if stored is None:
                continue
            key, was = key_of(last, against), RULE.validate_python(stored["rule"])
            rule = policy.rule(last.judge_name, against)
            if was.question == rule.question:
                watched.series[against] = Series.from_state(stored["state"], key=key, rule=rule)
            else:
                other[against] = Series.from_state(stored["state"], key=key, rule=was)
                watched.series[against] = Series(key=key, rule=rule)
        return watched, other


def key_of(one: AnchorRound, against: Against) -> SeriesKey:
    """A judge is watched for all environments and apps at once."""
    return SeriesKey(
        rule=JUDGE_DRIFT_RULE,
        environment="",
        app="",
        judge_name=one.judge_name,
        judge_id=one.judge_id,
        group=(("anchors", one.set_id), ("against", against)),
    )


def _named(model: str, fingerprint: str) -> str:
    # What a provider reports is text from outside: one line of bounded length.
    name = " ".join(model.split())[:80]
    return f"{name} ({' '.join(fingerprint.split())[:40]})" if fingerprint else name
