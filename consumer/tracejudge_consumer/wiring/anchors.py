"""The rounds of anchors that the settings ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracejudge.judging import JudgeSpec
from tracejudge.store import Store
from tracejudge_consumer.settings import Settings
from tracejudge_consumer.wiring.judges import build_panel, choose_judges

if TYPE_CHECKING:
    from tracejudge.alerts import DriftPolicy
    from tracejudge_consumer.anchors.watch import AnchorWatch


def anchor_judges(settings: Settings) -> tuple[JudgeSpec, ...]:
    """The judges that are watched by anchors: those that are named, or all that call a model."""
    if settings.anchors.judges:
        return choose_judges(settings.judges, settings.anchors.judges)
    return tuple(spec for spec in settings.judges if spec.calls_model)


def drift_policy(settings: Settings) -> DriftPolicy:
    """How judges are watched, and of which of them an alert gets a round."""
    section = settings.anchors
    may_call = section.max_calls_per_day > 0 and section.max_usd_per_day != 0.0
    specs = () if section.set is None else anchor_judges(settings)
    asked = frozenset[str](spec.judge_id() for spec in specs if may_call or not spec.calls_model)
    return replace(section.policy, asked=asked)


def build_anchor_watch(settings: Settings, store: Store) -> AnchorWatch | None:
    """What makes the rounds of `[anchors]`; None where no set is named. Importing it loads LlamaIndex.

    Raises SettingsError with every fault of the judges (a key that is not in the environment).
    """
    section = settings.anchors
    if section.set is None:
        return None
    from tracejudge_consumer.anchors.watch import AnchorPlan, AnchorWatch

    specs = anchor_judges(settings)
    build_panel(settings, store, specs, cached=False)  # its faults are said at the start, not in the night
    return AnchorWatch(
        store=store,
        plan=AnchorPlan(
            set_name=section.set,
            specs=specs,
            every=section.interval,
            max_calls_per_day=section.max_calls_per_day,
            max_usd_per_day=section.max_usd_per_day,
        ),
        make_panel=lambda spec, caps: build_panel(settings, store, [spec], caps=caps, cached=False),
    )
