"""The evidence of an alert: which slices fell, retrieval or generation, which traces to read, and how far to trust
it."""

from tracejudge.comparing.decomposition import Decomposition, SlicePart, decompose
from tracejudge.evidence.gather import MOST_ROWS, Evidence, gather, in_reading_order, tells_of_a_fall
from tracejudge.evidence.page import evidence_page
from tracejudge.evidence.reading import Reading
from tracejudge.evidence.standing_out import Finding, SlicedBy
from tracejudge.evidence.track_record import TrackRecord
from tracejudge.evidence.wire import to_json, with_evidence
from tracejudge.evidence.worst import WorstTrace

__all__ = [
    "MOST_ROWS",
    "Decomposition",
    "Evidence",
    "Finding",
    "Reading",
    "SlicePart",
    "SlicedBy",
    "TrackRecord",
    "WorstTrace",
    "decompose",
    "evidence_page",
    "gather",
    "in_reading_order",
    "tells_of_a_fall",
    "to_json",
    "with_evidence",
]
