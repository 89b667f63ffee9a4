"""The alert loop of the settings, its channels, and events for it from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING

from tracejudge.store import Store
from tracejudge_consumer.settings import Settings
from tracejudge_consumer.wiring.anchors import drift_policy
from tracejudge_consumer.wiring.holder import process_holder
from tracejudge_consumer.wiring.judges import sampling_policy

if TYPE_CHECKING:
    from tracejudge.alerts import AlertEvent, Notifier, SeriesStatus, Standing
    from tracejudge.alerts.telling.channels import ChannelPolicy
    from tracejudge_consumer.alerting.evidence import AlertEvidence
    from tracejudge_consumer.alerting.loop import AlertLoop
    from tracejudge_consumer.anchors.watch import AnchorWatch
    from tracejudge_consumer.watching.loop_health import LoopHealth


def build_notifiers(settings: Settings) -> list[Notifier]:
    """The channels of the settings."""
    from tracejudge.alerts import build_notifiers as build

    return list(build(settings.notifiers, environ=os.environ))


def channel_policies(settings: Settings) -> dict[str, ChannelPolicy]:
    """The policy of each channel of the settings, by its name."""
    return {channel.channel: channel.policy for channel in settings.notifiers}


def announcer(settings: Settings, store: Store) -> Callable[[AlertEvent], None]:
    """Stores an event and leaves its notifications to the alert loop; repeating it changes nothing."""
    from tracejudge_consumer.alerting.deliveries import Deliveries

    notifiers = build_notifiers(settings)
    deliveries = Deliveries(store=store, notifiers=notifiers, clock=store.clock, policies=channel_policies(settings))

    def announce(event: AlertEvent) -> None:
        store.alert_events.insert([event])
        deliveries.enqueue([event], still_open=frozenset())

    return announce


def build_alert_loop(
    settings: Settings,
    store: Store,
    *,
    settle_s: float | None = None,
    health: LoopHealth | None = None,
    anchors: AnchorWatch | None = None,
) -> AlertLoop:
    """The alert loop of the settings on an open store; its steps are signs of life for `health`. Close it."""
    from tracejudge_consumer.alerting.loop import AlertLoop

    return AlertLoop(
        store=store,
        rules=settings.rules,
        notifiers=build_notifiers(settings),
        clock=store.clock,
        holder=process_holder(),
        settle_s=settings.alert_loop.settle_s if settle_s is None else settle_s,
        checkpoint=(lambda _: None) if health is None else health.sign,
        policy=sampling_policy(settings),
        channels=channel_policies(settings),
        promises=settings.alerts.promises,
        drift=drift_policy(settings),
        evidence=build_evidence(settings, store),
        unanswerable=(lambda _: False) if anchors is None else anchors.cannot_tell_of,
    )


def build_evidence(settings: Settings, store: Store) -> AlertEvidence:
    """What explains alerts, with the settings' folder of pages."""
    from tracejudge_consumer.alerting.evidence import AlertEvidence
    from tracejudge_consumer.alerting.evidence_pages import EvidencePages

    section, kept = settings.alerts, settings.retention
    pages = None
    if section.evidence_dir is not None:
        days = kept.texts_d if section.evidence_texts else kept.events_d
        pages = EvidencePages(section.evidence_dir, url=section.evidence_url, keep=timedelta(days=days))
    return AlertEvidence(
        store,
        store.clock,
        criteria={spec.name: spec.criterion for spec in settings.judges},
        rules=settings.rules,
        promises=settings.alerts.promises,
        pages=pages,
        texts=section.evidence_texts,
        release=version("tracejudge"),
    )


def stored_series(settings: Settings, store: Store) -> list[SeriesStatus]:
    """Where every series stood when the alert loop last saved it."""
    from tracejudge_consumer.alerting.stored import load_series

    return load_series(store, settings.rules, promises=settings.alerts.promises, drift=settings.anchors.policy)


def stored_judges(settings: Settings, store: Store) -> list[Standing]:
    """Where every judge with anchors stood then."""
    from tracejudge_consumer.alerting.stored import load_judges

    return load_judges(store, drift=settings.anchors.policy)


def stored_held(store: Store) -> list[AlertEvent]:
    """The alerts that were held back then."""
    from tracejudge_consumer.alerting.stored import load_held

    return load_held(store)
