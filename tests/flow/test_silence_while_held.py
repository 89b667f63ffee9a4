"""Who silences an alert that waits for its judge has not been told of it yet, and is not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.flow.test_alerts_waiting import answered, days, server
from tests.flow.test_anchors import Days
from tracejudge_consumer.alerting.actions import record_action

__all__ = ["days", "server"]  # fixtures


@pytest.mark.parametrize("matchers", [{"app": "shop"}, {"event_id": ""}])
def test_an_alert_that_somebody_silenced_while_it_waited_is_told_to_nobody(
    days: Days, matchers: dict[str, str]
) -> None:
    (held,) = days.serve(20, good=0.1)
    days.clock.advance(60)
    now = days.clock.now()
    record_action(
        days.store,
        "silence",
        matchers={name: value or held.event_id for name, value in matchers.items()},
        start=now,
        end=now + timedelta(hours=2),
    )
    (told,) = answered(days)
    assert (told.event_id, "held" in told.evidence) == (held.event_id, False)
    assert days.channel.events == []
    days.clock.advance(7200)
    assert days.loop.tick() == []
    assert days.channel.events == []
