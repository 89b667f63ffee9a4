"""Frozen traces that are judged again and again: when their verdicts change, it is the judge that moved.

Values only, so that store and detectors may know them. Choosing and judging them is `tracejudge.anchoring`.
"""

from tracejudge.anchors.anchor import Anchor, AnchorsChanged, AnchorSet
from tracejudge.anchors.round import AnchorRound, Cause, Verdict

__all__ = ["Anchor", "AnchorRound", "AnchorSet", "AnchorsChanged", "Cause", "Verdict"]
