"""What is said about judges as a whole, once each time it changes: gone, back, mostly failing, well again."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from typing import Final

from tracejudge.judging import PanelResult
from tracejudge.scores import Outcome
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.metrics import Metrics

_LOG = logging.getLogger(__name__)

_LAST_VERDICTS: Final = 20
_FEW_VERDICTS: Final = 5  # fewer say nothing about the judge


class JudgeWatch:
    """Sees every result. For one event loop."""

    def __init__(self, *, health: Health, metrics: Metrics) -> None:
        self._health = health
        self._metrics = metrics
        self._gone: set[str] = set()
        self._failing: set[str] = set()
        self._reasons: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_LAST_VERDICTS))

    def note(self, result: PanelResult) -> None:
        """Takes a result that has just come from the judges."""
        scores = result.scores
        troubled = result.gone or self._gone or self._failing
        if not troubled and len(scores) == 1 and scores[0].outcome is not Outcome.INVALID:  # the usual, once a trace
            self._reasons[scores[0].judge_name].append("")
            return
        back = self._gone & {score.judge_name for score in result.scores if score.outcome.settled}
        for name in back:
            self._gone.remove(name)
            self._metrics.judges_gone.labels(name).set(0)
            _LOG.warning("judge %r answers again", name)
        for fault in result.gone:
            if fault.judge_name not in self._gone:
                self._gone.add(fault.judge_name)
                self._metrics.judges_gone.labels(fault.judge_name).set(1)
                _LOG.error("%s: its traces are undecided in the ledger until it is available again", fault)
        if back or result.gone:
            self._health.judges_gone(self._gone)
        for score in result.scores:
            if not score.outcome.settled:
                about = {"trace_id": score.trace_id, "judge": score.judge_name, "reason": score.reason}
                _LOG.info("judge %r could not judge a trace: %s", score.judge_name, score.reason, extra=about)
            self._reasons[score.judge_name].append("" if score.outcome.settled else score.reason)
        for name in {score.judge_name for score in result.scores if not score.outcome.settled} | self._failing:
            self._look_at(name)

    def _look_at(self, name: str) -> None:
        last = self._reasons[name]
        reasons = Counter(reason for reason in last if reason)
        invalid = reasons.total()
        if name not in self._failing and 2 * invalid > len(last) >= _FEW_VERDICTS:
            self._failing.add(name)
            _LOG.error(
                "judge %r: %d of its last %d verdicts are invalid (%s); see `tracejudge tail --failed`, and "
                "`tracejudge retry` when it is well again",
                name,
                invalid,
                len(last),
                ", ".join(f"{number} {reason}" for reason, number in reasons.most_common(3)),
            )
        elif name in self._failing and 2 * invalid <= len(last):
            self._failing.remove(name)
            _LOG.warning("judge %r: most verdicts are valid again", name)
