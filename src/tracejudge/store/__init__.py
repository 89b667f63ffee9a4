"""Everything that is kept: ClickHouse on a server, or the same engine embedded in one owner process.

`open_store(url)` gives a `Store` whose attributes are the tables. Every insert may be repeated in any split and changes
nothing; every reader counts each (trace, judge, run) once.
"""

from tracejudge.store.alert_rows import AlertSnapshot, OutboxItem, OutboxStanding, UserAction
from tracejudge.store.calls import MeasuredTokens
from tracejudge.store.cases import CaseAnswer, CaseVerdicts
from tracejudge.store.connect import open_store
from tracejudge.store.finding import Wanted, words_of
from tracejudge.store.forgetting import Forgotten, forgotten_row
from tracejudge.store.growth import Growth, TableFacts
from tracejudge.store.judged import JudgedQuery, JudgedRow, Verdict
from tracejudge.store.queries import (
    GROUP_FIELDS,
    TRACE_FIELDS,
    DeadLetterFilter,
    Draw,
    RateQuery,
    ScoreFilter,
    TraceFilter,
    is_trace_field,
)
from tracejudge.store.reported import ReportedModel
from tracejudge.store.retention import Retention
from tracejudge.store.rows import (
    Adoption,
    BucketRow,
    CostRow,
    Cursor,
    CutOff,
    DeadCount,
    DeadLetterState,
    Inserted,
    Known,
    Lease,
    LedgerLine,
    Pair,
    RegisteredJudge,
    Rejected,
    RunManifest,
    SamplingEpoch,
    StoredDeadLetter,
    StoredFeedback,
    StoredPart,
    StoredTrace,
    TracePlace,
)
from tracejudge.store.sampling_counts import DecidedRow, FirstSeen
from tracejudge.store.sampling_epochs import EpochsRead
from tracejudge.store.store import Store, TableSize
from tracejudge.store.tombstones import Identity, Tombstone
from tracejudge.store.trace_rows import TraceBatch, TraceColumns
from tracejudge.store.traffic import EffortRow, Percentiles, TrafficRow

__all__ = [
    "GROUP_FIELDS",
    "TRACE_FIELDS",
    "Adoption",
    "AlertSnapshot",
    "BucketRow",
    "CaseAnswer",
    "CaseVerdicts",
    "CostRow",
    "Cursor",
    "CutOff",
    "DeadCount",
    "DeadLetterFilter",
    "DeadLetterState",
    "DecidedRow",
    "Draw",
    "EffortRow",
    "EpochsRead",
    "FirstSeen",
    "Forgotten",
    "Growth",
    "Identity",
    "Inserted",
    "JudgedQuery",
    "JudgedRow",
    "Known",
    "Lease",
    "LedgerLine",
    "MeasuredTokens",
    "OutboxItem",
    "OutboxStanding",
    "Pair",
    "Percentiles",
    "RateQuery",
    "RegisteredJudge",
    "Rejected",
    "ReportedModel",
    "Retention",
    "RunManifest",
    "SamplingEpoch",
    "ScoreFilter",
    "Store",
    "StoredDeadLetter",
    "StoredFeedback",
    "StoredPart",
    "StoredTrace",
    "TableFacts",
    "TableSize",
    "Tombstone",
    "TraceBatch",
    "TraceColumns",
    "TraceFilter",
    "TracePlace",
    "TrafficRow",
    "UserAction",
    "Verdict",
    "Wanted",
    "forgotten_row",
    "is_trace_field",
    "open_store",
    "words_of",
]
