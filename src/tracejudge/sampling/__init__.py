"""Which traces are judged, with the exact chance of each recorded: pure functions of trace, signals and policy."""

from tracejudge.sampling.condition import Condition
from tracejudge.sampling.decide import SampledTrace, SamplingDecision, sample
from tracejudge.sampling.policy import Rule, SamplingPolicy, Stratum

__all__ = ["Condition", "Rule", "SampledTrace", "SamplingDecision", "SamplingPolicy", "Stratum", "sample"]
