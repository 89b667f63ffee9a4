"""Whether a trace is judged, by whom, and with which chance.

One hash of the trace id with the tail salt decides for all judges and all rules, so that the judge with the lower rate
sees a subset of what the other sees, and a raised rate only ever adds traces. The chance is therefore the largest rate
that speaks for the trace, and not 1 - (1 - a)(1 - b), which independent dice would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tracejudge.quick import made_quickly
from tracejudge.sampling.epoch import Epoch
from tracejudge.sampling.policy import Rule, SamplingPolicy, Stratum, concerns
from tracejudge.signals import Signals
from tracejudge_sdk.sampling import TAIL_SALT, keep
from tracejudge_sdk.trace import Trace


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingDecision:
    """The sampling decision for one judge.

    `inclusion_probability` is the chance, before the hash fell, that this judge sees this trace: head x tail, in
    [0, 1]; above 0 whenever `kept`, 0 when `filtered`. `rule` says in words what set it.
    """

    kept: bool
    filtered: bool
    inclusion_probability: float
    rule: str


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTrace:
    """A trace with its stratum ("" for the rest) and one decision per judge."""

    trace: Trace
    signals: Signals
    stratum: str
    epoch: int | None = None
    decisions: Mapping[str, SamplingDecision]

    @property
    def judge_names(self) -> frozenset[str]:
        """The judges that see this trace."""
        return frozenset(name for name, decision in self.decisions.items() if decision.kept)


def sample(
    trace: Trace,
    signals: Signals,
    policy: SamplingPolicy,
    judge_names: Iterable[str],
    epoch: Epoch | None = None,
) -> SampledTrace:
    """The decision of `policy` for every one of `judge_names`. Pure: alike in any process, at any time.

    `epoch` is the one in force at the trace's event time; without it the policy stands as written.
    """
    stratum = None
    for each in policy.strata:
        if each.when.holds(trace, signals, epoch):
            stratum = each
            break
    rules = [rule for rule in policy.rules if rule.when.holds(trace, signals, epoch)]
    return SampledTrace(
        trace=trace,
        signals=signals,
        stratum="" if stratum is None else stratum.name,
        decisions={name: _decide(trace, policy, stratum, rules, name, epoch) for name in judge_names},
        epoch=None if epoch is None else epoch.number,
    )


def _decide(
    trace: Trace,
    policy: SamplingPolicy,
    stratum: Stratum | None,
    matching: list[Rule],
    judge_name: str,
    epoch: Epoch | None,
) -> SamplingDecision:
    rules = [rule for rule in matching if concerns(rule.judges, judge_name)]
    for rule in rules:
        if rule.never:
            return SamplingDecision(
                kept=False, filtered=True, inclusion_probability=0.0, rule=f"rule {rule.name!r}: never"
            )
    own, words, raised = policy.base_rate(judge_name), "base rate", 0.0
    if stratum is not None and (rate := stratum.rate_of(judge_name)) is not None:
        own, words = rate, f"stratum {stratum.name!r}: rate"
    tail = own
    for rule in rules:
        if rule.rate is not None:
            raised = max(raised, rule.rate)
            if rule.rate > tail:
                tail, words = rule.rate, f"rule {rule.name!r}: rate"
    words = f"{words} {tail:g}"
    governed, name = _governed(
        trace.app, policy, judge_name, epoch, own, raised, "" if stratum is None else stratum.name
    )
    if governed is not None and governed != tail:
        # Without its figure: this is stored for every trace, and an epoch is a minute.
        tail, words = governed, f"{words}, {'lowered' if governed < tail else 'raised'} by governor {name!r}"
    if trace.head_probability < 1.0:
        words = f"{words}, of the {trace.head_probability:g} that the service sent"
    return SamplingDecision(
        kept=keep(trace.trace_id, tail, TAIL_SALT),
        filtered=False,
        inclusion_probability=trace.head_probability * tail,
        rule=words,
    )


def _governed(
    app: str, policy: SamplingPolicy, judge_name: str, epoch: Epoch | None, own: float, rule: float, stratum: str
) -> tuple[float | None, str]:
    """The lowest chance that a governor of this judge and app leaves, and its name; None where none has a say yet."""
    lowest, by = None, ""
    if epoch is None:
        return lowest, by
    for governor in policy.governors:
        rates = epoch.rates.get(governor.name)
        if rates is None or not governor.governs(judge_name, app):
            continue
        chance = rates.chance(own, rule, stratum)
        if lowest is None or chance < lowest:
            lowest, by = chance, governor.name
    return lowest, by
