"""What people read, put together from the store: pass rates per window, two runs or two releases side by side."""

from tracejudge.comparing.accuracy import Accuracy
from tracejudge.comparing.paired import Estimate
from tracejudge.comparing.standardised import LEAST_COMPARED, Standardised
from tracejudge.comparing.unpaired import ReleaseVerdict, Verdict
from tracejudge.reports.compare import Agreement, Comparison, Flip, Side, compare, in_words
from tracejudge.reports.labels import judge_labels, score_labels
from tracejudge.reports.mix import MixShift
from tracejudge.reports.preference import Preference, Preferred, preference, preference_in_words
from tracejudge.reports.rates import BY_MINUTE_IN_WORDS, RateLine, read_rates, small_enough, unseen_fields
from tracejudge.reports.release import WITHIN_FIELDS, ReleaseCheck, ReleaseLine, ReleaseWindow, check_release, served_in

__all__ = [
    "BY_MINUTE_IN_WORDS",
    "LEAST_COMPARED",
    "WITHIN_FIELDS",
    "Accuracy",
    "Agreement",
    "Comparison",
    "Estimate",
    "Flip",
    "MixShift",
    "Preference",
    "Preferred",
    "RateLine",
    "ReleaseCheck",
    "ReleaseLine",
    "ReleaseVerdict",
    "ReleaseWindow",
    "Side",
    "Standardised",
    "Verdict",
    "check_release",
    "compare",
    "in_words",
    "judge_labels",
    "preference",
    "preference_in_words",
    "read_rates",
    "score_labels",
    "served_in",
    "small_enough",
    "unseen_fields",
]
