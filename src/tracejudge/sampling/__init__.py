"""Which traces are judged, with the exact chance of each recorded: pure functions of trace, signals and policy."""

from tracejudge.sampling.condition import Condition
from tracejudge.sampling.decide import SampledTrace, SamplingDecision, sample
from tracejudge.sampling.epoch import LEAD_S, Epoch, EpochBook, GovernedRates, VersionKey, epoch_from_json, epoch_number
from tracejudge.sampling.governor import Governor
from tracejudge.sampling.policy import MIN_RATE, FeedbackTrigger, Rule, SamplingPolicy, Stratum

__all__ = [
    "LEAD_S",
    "MIN_RATE",
    "Condition",
    "Epoch",
    "EpochBook",
    "FeedbackTrigger",
    "GovernedRates",
    "Governor",
    "Rule",
    "SampledTrace",
    "SamplingDecision",
    "SamplingPolicy",
    "Stratum",
    "VersionKey",
    "epoch_from_json",
    "epoch_number",
    "sample",
]
