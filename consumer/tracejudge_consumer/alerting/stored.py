"""Where everything stood when the alert loop last saved it, for those who only look."""

from __future__ import annotations

from collections.abc import Sequence

from tracejudge.alerts import AlertEvent, DriftPolicy, Engine, Promises, Rule, SeriesSnapshot, SeriesStatus, Standing
from tracejudge.alerts.judges.drift import JudgeDrift
from tracejudge.store import Store
from tracejudge_consumer.alerting.memory import LOOP_STATE


def load_series(
    store: Store, rules: Sequence[Rule], *, promises: Promises | None = None, drift: DriftPolicy | None = None
) -> list[SeriesStatus]:
    """Every series of the rules, and of judges with anchors, and which are silent now."""
    return _engine(store, rules, drift, promises).status()


def load_judges(store: Store, *, drift: DriftPolicy | None = None) -> list[Standing]:
    """Every judge with anchors that has been held against something, by its id."""
    return _engine(store, (), drift).judges.standings()


def load_held(store: Store) -> list[AlertEvent]:
    """The alerts that are held back because of their judge, as they began; also one whose time is over, until the loop
    lets it go."""
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
