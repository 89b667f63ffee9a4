"""Which traces are judged, with the exact chance of each recorded: pure functions of trace, signals and policy."""

from tracejudge.sampling.condition import Condition
from tracejudge.sampling.decide import SampledTrace, SamplingDecision, sample
from tracejudge.sampling.policy import MIN_RATE, Rule, SamplingPolicy, Stratum

__all__ = ["MIN_RATE", "Condition", "Rule", "SampledTrace", "SamplingDecision", "SamplingPolicy", "Stratum", "sample"]
