"""What goes into a panel and what comes out of it, as values."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from tracejudge.errors import JudgeGone
from tracejudge.quick import made_quickly
from tracejudge.scores import JudgeCall, LedgerRow, Score, Spend
from tracejudge_sdk.trace import Trace


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTask:
    """One trace to be judged by the judges named, with how it came into the sample."""

    trace: Trace
    judge_names: frozenset[str]
    stratum: str = ""
    inclusion_probability: Mapping[str, float]  # by judge name, in (0, 1]; head x tail
    event_time: datetime  # the stored one: it wins over the trace's own, so that keys stay stable


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class PanelResult:
    """What became of a batch: every (task, judge) stands in exactly one of `scores` and `ledger`.

    `calls` holds every call to a model, failed ones too. `served` counts the scores of judges that call a model by
    (judge name, where the verdict came from): "" the judge itself, "memory", "store", or "in_flight" (another trace
    with the same content was being judged at that moment). `gone` names the judges that could answer nobody; their
    traces are in the ledger as undecided.
    """

    scores: tuple[Score, ...]
    ledger: tuple[LedgerRow, ...]
    calls: tuple[JudgeCall, ...]
    gone: tuple[JudgeGone, ...]
    served: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def total(cls, results: Sequence[PanelResult]) -> PanelResult:
        """The rows of all of them in their order; each judge that is gone stands in it once."""
        if len(results) == 1:
            return results[0]
        served: Counter[tuple[str, str]] = Counter()
        gone: dict[str, JudgeGone] = {}
        for one in results:
            for key, count in one.served.items():  # of one or two: `update` costs several times that
                served[key] += count
            for fault in one.gone:
                gone.setdefault(fault.judge_name, fault)
        return cls(
            scores=tuple([row for one in results for row in one.scores]),
            ledger=tuple([row for one in results for row in one.ledger]),
            calls=tuple([row for one in results for row in one.calls]),
            gone=tuple(gone.values()),
            served=dict(served),
        )


OnJudged = Callable[[int, PanelResult], None]
"""Called with the place of a task among those handed in, and what one judge said about it."""


class SpendSource(Protocol):
    """Where the stored calls of a judge are added up; seeds the budgets, so that a restart does not refill them."""

    def spent(self, judge_name: str, since: datetime) -> Spend:
        """Calls and money of the judge ("": of all judges) since `since`, all runs together.

        May block; called outside the event loop.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseKey:
    """What a share is of: a cap (by its setting and its scope: a judge's name, "" for all) in one window."""

    scope: str
    cap: str
    unit: Literal["calls", "usd"]
    limit: float
    start: datetime
    end: datetime


class BudgetLeases(Protocol):
    """The place where the processes of a fleet claim their shares of a cap, so that all of them together keep it.

    Amounts are calls or USD, as the key's unit says. Both may block, and are called outside the event loop.
    """

    def claim(self, key: LeaseKey, *, want: float, holder: str) -> float:
        """Takes up to `want` of what the cap has left in the window, for `holder`; gives what was taken, 0 for none."""
        ...

    def give_back(self, key: LeaseKey, *, used: float, holder: str) -> None:
        """Returns what `holder` took in the window and did not use."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCaps:
    """Hard caps of one run (`score FILE`, a replay), all its judges together; None sets none."""

    max_calls: int | None = None
    max_usd: float | None = None


class NothingSpent:
    """For runs without a store, such as `score FILE`: every budget starts full."""

    def spent(self, judge_name: str, since: datetime) -> Spend:
        return Spend(0, 0.0)


def content_hash(trace: Trace) -> str:
    """32 hex digits of everything a judge reads: equal content, equal hash, whatever the ids and times."""
    nodes = trace.source_nodes
    texts = [trace.query, trace.response, trace.reference, *[node.text for node in nodes]]
    for turn in trace.history:
        texts += (turn.role, turn.content)
    # Lengths before the texts: no two contents give the same bytes. Lone surrogates can stand in JSON texts.
    lengths = ",".join(["-" if text is None else str(len(text)) for text in texts])
    whole = f"{len(nodes)};{lengths};{''.join(filter(None, texts))}"
    return hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
