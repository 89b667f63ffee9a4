"""Whether a trace is judged, by whom, and with which chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tracejudge.sampling.policy import SamplingPolicy
from tracejudge.signals import Signals
from tracejudge_sdk.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingDecision:
    """What was decided for one judge.

    `inclusion_probability` is the chance, before the dice fell, that this judge sees this trace: head x tail, in
    [0, 1]; above 0 whenever `kept`, 0 when `filtered`. `rule` says what set it, in words.
    """

    kept: bool
    filtered: bool
    inclusion_probability: float
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTrace:
    """A trace with its stratum ("" for the rest) and one decision per judge."""

    trace: Trace
    signals: Signals
    stratum: str
    decisions: Mapping[str, SamplingDecision]

    @property
    def judge_names(self) -> frozenset[str]:
        """The judges that see this trace."""
        return frozenset(name for name, decision in self.decisions.items() if decision.kept)


def sample(trace: Trace, signals: Signals, policy: SamplingPolicy, judge_names: Iterable[str]) -> SampledTrace:
    """The decision of `policy` for every one of `judge_names`. Pure: alike anywhere."""
    raise NotImplementedError
