"""Reads the state that the alert loop last saved, for commands that only show it."""

from __future__ import annotations

from collections.abc import Sequence

from tracejudge.alerts import AlertEvent, DriftPolicy, Engine, Promises, Rule, SeriesSnapshot, SeriesStatus, Standing
from tracejudge.alerts.judges.drift import JudgeDrift
from tracejudge.store import Store
from tracejudge_consumer.alerting.memory import LOOP_STATE


def load_series(
    store: Store, rules: Sequence[Rule], *, promises: Promises | None = None, drift: DriftPolicy | None = None
) -> list[SeriesStatus]:
    """The status of every series of the rules and of judges with anchors; which are silent is worked out as of now."""
    return _engine(store, rules, drift, promises).status()


def load_judges(store: Store, *, drift: DriftPolicy | None = None) -> list[Standing]:
    """The standing of every judge with anchors, in the order of set, JudgeId and measure."""
    return _engine(store, (), drift).judges.standings()


def load_held(store: Store) -> list[AlertEvent]:
    """The firing events of alerts that are held back because of their judge; also of one whose hold has expired, until
    the loop releases it."""
    drift = JudgeDrift()
    for name, row in store.alert_snapshots.load_all().items():
        if name != LOOP_STATE:
            drift.restore(SeriesSnapshot(name, row.state))
    return drift.held


def _engine(store: Store, rules: Sequence[Rule], drift: DriftPolicy | None, promises: Promises | None = None) -> Engine:
    engine = Engine(rules, promises=promises, drift=drift)
    stored = store.alert_snapshots.load_all()
    engine.restore(SeriesSnapshot(name, row.state) for name, row in stored.items() if name != LOOP_STATE)
    engine.tick(store.now())
    return engine
