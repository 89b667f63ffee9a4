"""The judges of the settings: chosen, registered, on a panel, and how much they see."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from tracejudge.errors import SettingsError
from tracejudge.judging import JudgeSpec, RunCaps
from tracejudge.sampling import SamplingPolicy
from tracejudge.store import Adoption, Store
from tracejudge_consumer.registered import registered
from tracejudge_consumer.settings import Settings

if TYPE_CHECKING:
    from tracejudge.judging import Panel

# Every store has been there since the first trace: the first JudgeId of a name is live for all of the past.
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def choose_judges(specs: Collection[JudgeSpec], names: Collection[str]) -> tuple[JudgeSpec, ...]:
    """The specs with these names. Raises SettingsError for names that are not configured."""
    known = {spec.name: spec for spec in specs}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SettingsError(
            [
                f"judge {name!r} is not in the settings; there are {', '.join(map(repr, known)) or 'none'}"
                for name in unknown
            ]
        )
    return tuple(known[name] for name in names)


def build_panel(
    settings: Settings,
    store: Store,
    specs: Collection[JudgeSpec],
    *,
    caps: RunCaps | None = None,
    patience_s: float = 0.0,
    cached: bool = True,
) -> Panel:
    """A panel of `specs` on an open store: budgets kept across the fleet, verdicts shared through the store.

    `cached` False is for what measures a judge.
    """
    from tracejudge.judging import Panel, VerdictCache
    from tracejudge.judging.cache import Memory

    cache = None
    if cached and settings.cache.enabled:
        memory = Memory(entries=settings.cache.entries, size_bytes=settings.cache.size_bytes)
        cache = VerdictCache(store=store.verdict_cache, memory=memory)
    return Panel(
        tuple(specs),
        clock=store.clock,
        spend=store.calls,
        caps=caps,
        total=settings.budget.caps,
        leases=store.budget_leases,
        cache=cache,
        patience_s=patience_s,
    )


def sampling_policy(settings: Settings) -> SamplingPolicy:
    """The policy in force: a judge that calls no model sees everything, unless the settings name it."""
    return settings.sampling.with_full_rate(spec.name for spec in settings.judges if not spec.calls_model)


def register_judges(specs: Collection[JudgeSpec], store: Store) -> None:
    """Stores the spec behind each JudgeId, and which JudgeId is live for its name from now on.

    The first JudgeId of a name is live for all of the past, so that a backlog read on the first day shows under it.
    """
    now = store.now()
    known = {judge.judge_id for judge in store.judges.all()}
    store.judges.register([registered(spec, now) for spec in specs if spec.judge_id() not in known])
    for spec in specs:
        if spec.shadow:
            continue  # on trial: known, and live for nothing
        adoptions = sorted(store.judges.adoptions(spec.name), key=lambda adoption: adoption.live_from)
        if adoptions and adoptions[-1].judge_id == spec.judge_id():
            continue
        live_from = now if adoptions else _BEGINNING
        store.judges.adopt(Adoption(judge_name=spec.name, judge_id=spec.judge_id(), live_from=live_from))
