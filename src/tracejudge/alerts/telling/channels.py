"""A channel's policy (which events it is sent, how often, when it counts as dead), and its state, which survives
restarts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from tracejudge.alerts.durations import parse_duration
from tracejudge.alerts.event import AlertEvent, EventKind, SeriesKey, Severity
from tracejudge.alerts.rules.rule_base import CHANNEL_RULE
from tracejudge.alerts.series.snapshots import FORMAT, SeriesSnapshot
from tracejudge.alerts.wire import event_from_json, event_to_json

UNLIMITED: Final = "unlimited"
FAILURES_OF_A_DEAD_CHANNEL: Final = 3
"""In a row, and `down_after` since the first: a channel that was away for a moment is not dead."""

RESERVED_FOR_PAGES: Final = 5
"""One in so many of a channel's messages is kept for pages: tickets cannot use up the last of them."""

_RATE: Final = re.compile(r"\s*(\d{1,6})\s+per\s+(\d{1,6}\s*[mhdw])\s*", re.ASCII)


class MessageRate(NamedTuple):
    """At most so many messages at once, filled up again evenly within `per`: a token bucket."""

    messages: int
    per: timedelta


def parse_rate(text: str) -> MessageRate | None:
    """The limit written as `N per DURATION`; None for `unlimited`. Raises ValueError, saying how to write one.

    >>> parse_rate("30 per 1h").messages
    30
    """
    if text.strip() == UNLIMITED:
        return None
    match = _RATE.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a number of messages; write it as '30 per 1h', or 'unlimited'")
    return MessageRate(int(match[1]), parse_duration(match[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPolicy:
    """Which events one channel is sent, how often, and when it counts as dead."""

    severities: frozenset[Severity] = frozenset({"page", "ticket"})
    match: Mapping[str, str] = field(default_factory=dict)  # environment, app, judge or rule -> the only value of it
    group: bool = True  # events of a group in one message, where the channel can say several at once
    rate: MessageRate | None = None  # None: unlimited
    down_after: timedelta = timedelta(minutes=5)

    def wants(self, event: AlertEvent) -> bool:
        """Whether the event is sent to this channel. What is wrong with other channels concerns all of them."""
        if event.severity not in self.severities:
            return False
        series = event.series
        if series.rule == CHANNEL_RULE:
            return True
        named = {
            "environment": series.environment,
            "app": series.app,
            "judge": series.judge_name,
            "rule": series.rule,
        }
        return all(named[name] == value for name, value in self.match.items())


@dataclass(slots=True, kw_only=True)
class ChannelState:
    """The state of a channel. `untold` are events about the channel itself that are decided but not yet stored."""

    name: str
    tokens: float | None = None  # None: nothing was sent yet, all are there
    filled_at: datetime | None = None
    held: bool = False  # events wait for the limit
    failures: int = 0  # in a row
    failing_since: datetime | None = None
    down: bool = False
    untold: list[AlertEvent] = field(default_factory=list)

    def take(self, rate: MessageRate | None, *, page: bool, now: datetime) -> bool:
        """Takes a token for one message; False when there is none, and `held` is set. Tickets leave some tokens for
        pages."""
        if rate is None:
            self.held = False
            return True
        passed = timedelta(0) if self.filled_at is None else max(timedelta(0), now - self.filled_at)
        filled = rate.messages if self.tokens is None else self.tokens + rate.messages * (passed / rate.per)
        self.tokens, self.filled_at = min(float(rate.messages), filled), now
        # A hair of room: a bucket that is to be full to the tenth digit would wait for the next tick.
        if self.tokens + 1e-9 < 1 + (0 if page else rate.messages // RESERVED_FOR_PAGES):
            self.held = True
            return False
        self.tokens = max(0.0, self.tokens - 1.0)
        return True

    def failed(self, policy: ChannelPolicy, error: str, *, now: datetime) -> None:
        """Notes that a message was not accepted; when the channel is dead by it, an event is put into `untold`."""
        self.failures += 1
        if self.failing_since is None:
            self.failing_since = now
        dead = self.failures >= FAILURES_OF_A_DEAD_CHANNEL and now - self.failing_since >= policy.down_after
        if dead and not self.down:
            self.down = True
            self.untold.append(self._event("channel_down", policy, now=now, error=error))

    def succeeded(self, policy: ChannelPolicy, *, now: datetime) -> bool:
        """Notes that a message was accepted; returns whether that changes the state."""
        if not self.failures:
            return False
        if self.down:
            self.untold.append(self._event("channel_up", policy, now=now, error=""))
        self.failures, self.failing_since, self.down = 0, None, False
        return True

    def _event(self, kind: EventKind, policy: ChannelPolicy, *, now: datetime, error: str) -> AlertEvent:
        since = self.failing_since or now
        series = SeriesKey(
            rule=CHANNEL_RULE,
            environment="all",
            app="tracejudge",
            judge_name="",
            judge_id="",
            group=(("channel", self.name),),
        )
        evidence = {"channel": self.name, "failing_since": since.isoformat(), "failures": self.failures}
        if kind == "channel_down":
            evidence["last_error"] = error
            summary = (
                f"channel {self.name!r} has not accepted alerts since {since:%Y-%m-%d %H:%M} UTC "
                f"({self.failures} attempts): its alerts are queued and retried"
            )
        else:
            summary = (
                f"channel {self.name!r} accepts alerts again; it had accepted none since {since:%Y-%m-%d %H:%M} UTC"
            )
        return AlertEvent(
            event_id=hashlib.sha256(json.dumps([self.name, kind, since.isoformat()]).encode()).hexdigest()[:32],
            series=series,
            kind=kind,
            severity="page" if "page" in policy.severities else "ticket",
            heuristic=False,
            at=now,
            summary=summary,
            evidence=evidence,
        )

    def to_snapshot(self) -> SeriesSnapshot:
        """The state as one of the alert loop's snapshots."""
        state = {
            "format": FORMAT,
            "kind": "channel",
            "channel": self.name,
            "tokens": self.tokens,
            "filled_at": _text(self.filled_at),
            "held": self.held,
            "failures": self.failures,
            "failing_since": _text(self.failing_since),
            "down": self.down,
            "untold": [event_to_json(event) for event in self.untold],
        }
        return SeriesSnapshot(f"channel:{self.name}", state)

    @classmethod
    def from_snapshot(cls, state: Mapping[str, Any]) -> ChannelState | None:
        """The state that a snapshot holds; None for a snapshot of another kind or format."""
        if state.get("format") != FORMAT or state.get("kind") != "channel":
            return None
        return cls(
            name=state["channel"],
            tokens=state["tokens"],
            filled_at=_instant(state["filled_at"]),
            held=state["held"],
            failures=state["failures"],
            failing_since=_instant(state["failing_since"]),
            down=state["down"],
            untold=[event_from_json(event) for event in state["untold"]],
        )


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text is not None else None
