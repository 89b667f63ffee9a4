"""The Prometheus metrics, in one registry of their own: every name with its meaning, and what the pipeline counts."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tracejudge.scores import JudgeCall, LedgerRow, Outcome, Score
from tracejudge_consumer.intake import PartitionKey
from tracejudge_consumer.watching.distribution import Distribution

MetricName = Literal[
    "tracejudge_records_total",  # records read, by what they were: trace, part, feedback, duplicate, dead_letter
    "tracejudge_dead_letters_total",  # records kept as dead letters, by reason
    "tracejudge_scores_total",  # scores stored, by judge and outcome
    "tracejudge_invalid_scores_total",  # invalid scores stored, by judge and reason
    "tracejudge_ledger_rows_total",  # (trace, judge) pairs without a score, by judge and decision
    "tracejudge_settled_skips_total",  # (trace, judge) pairs not judged because a settled score was stored
    "tracejudge_judge_calls_total",  # calls to judge models, by judge and status
    "tracejudge_verdicts_total",  # scores of judges that call a model, by judge and source: judge, memory, store, ...
    "tracejudge_judge_latency_seconds",  # time of one call to a judge model, by judge
    "tracejudge_event_to_score_seconds",  # from serving an answer to its score, by judge
    "tracejudge_store_retries_total",  # store calls repeated because the store did not answer
    "tracejudge_commits_total",  # commits of offsets, by result: accepted, refused (partition lost), failed
    "tracejudge_commit_age_seconds",  # since the last accepted commit, or since there was something to commit
    "tracejudge_in_flight_records",  # records taken on and not finished
    "tracejudge_in_flight_bytes",  # their size
    "tracejudge_offset_gap_records",  # records at or beyond the oldest unfinished one: what a crash would repeat
    "tracejudge_partitions",  # partitions assigned to this process
    "tracejudge_lag_records",  # records not yet handed out, by source and partition
    "tracejudge_lag_seconds",  # how long the oldest unread record has waited, about, by source and partition
    "tracejudge_stalled",  # 1 while records wait, nothing holds them back and none is handed out, else 0
    "tracejudge_unfinished_seconds",  # since a record was last finished, while some are in flight
    "tracejudge_judge_circuit",  # by judge and state (ok, down, gone): 1 for the state the judge is in
    "tracejudge_heartbeats_total",  # by sender (consumer, alert_loop) and result: sent, withheld, failed
    "tracejudge_alert_loop_leading",  # 1 in the process that leads the alert loop, else 0
    "tracejudge_alert_rounds_total",  # rounds of the alert loop, by result: done, broken_off
    "tracejudge_alert_round_age_seconds",  # since a round of the alert loop last came to its end
    "tracejudge_alert_channel_dead",
    "tracejudge_alerts_held",  # open alerts held back, by because (judge_moved, round_asked), where the loop is led
    "tracejudge_alert_events_total",  # alert events published by this process, by kind
    "tracejudge_build_info",  # 1, with the version
    "tracejudge_judges_gone",  # 1 while the judge answers nobody, by judge
    "tracejudge_unresolved_nodes_total",  # passages that stay without text, by reason: unknown, hook_failed
    "tracejudge_queue_deleted_unread_total",  # records the SQLite log deleted before a group had read them, by group
    "tracejudge_gateway_requests_total",  # HTTP requests answered, by status
    "tracejudge_gateway_lines_total",  # lines answered, by answer: accepted, refused, unavailable
    "tracejudge_gateway_refused_total",  # lines and whole requests that were refused, by reason
    "tracejudge_gateway_in_flight_bytes",  # bytes of requests that have no answer yet
    "tracejudge_gateway_connections",  # open connections
    "tracejudge_gateway_queue_up",  # 1 while the queue takes records, else 0
    "tracejudge_gateway_send_seconds",  # time until the queue has confirmed a batch
]

if TYPE_CHECKING:
    from tracejudge.judging.calls.circuit import Availability

_LATENCY_S: Final = (0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 60)
_TO_SCORE_S: Final = (1, 2, 5, 10, 30, 60, 120, 300, 900, 3600, 6 * 3600, 86400)


def counter(registry: CollectorRegistry, name: MetricName, text: str, *labels: str) -> Counter:
    """A counter under one of our names."""
    return Counter(name.removesuffix("_total"), text, labels, registry=registry)


def gauge(registry: CollectorRegistry, name: MetricName, text: str, *labels: str) -> Gauge:
    """A gauge under one of our names."""
    return Gauge(name, text, labels, registry=registry)


class Metrics:
    """What the pipeline counts. Thread-safe, as prometheus_client's metrics are."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        of = self.registry
        self.records = counter(of, "tracejudge_records_total", "Records read.", "kind")
        self.dead_letters = counter(of, "tracejudge_dead_letters_total", "Dead letters.", "reason")
        self.scores = counter(of, "tracejudge_scores_total", "Scores stored.", "judge", "outcome")
        self.invalid = counter(of, "tracejudge_invalid_scores_total", "Invalid scores stored.", "judge", "reason")
        self.ledger = counter(of, "tracejudge_ledger_rows_total", "Traces not judged.", "judge", "decision")
        self.unresolved = counter(of, "tracejudge_unresolved_nodes_total", "Passages without text.", "reason")
        self.settled = counter(of, "tracejudge_settled_skips_total", "Judgings skipped: settled before.")
        self.calls = counter(of, "tracejudge_judge_calls_total", "Calls to judge models.", "judge", "status")
        self.verdicts = counter(of, "tracejudge_verdicts_total", "Verdicts by where they came from.", "judge", "source")
        latency: MetricName = "tracejudge_judge_latency_seconds"
        self.judge_latency = Distribution(latency, "Time of a judge call.", "judge", _LATENCY_S, of)
        to_score: MetricName = "tracejudge_event_to_score_seconds"
        self.event_to_score = Distribution(to_score, "From serving to score.", "judge", _TO_SCORE_S, of)
        self.store_retries = counter(of, "tracejudge_store_retries_total", "Store calls repeated.")
        self.commits = counter(of, "tracejudge_commits_total", "Commits of offsets.", "result")
        self.commit_age = gauge(of, "tracejudge_commit_age_seconds", "Since offsets were last committed.")
        self.in_flight_records = gauge(of, "tracejudge_in_flight_records", "Records being worked on.")
        self.in_flight_bytes = gauge(of, "tracejudge_in_flight_bytes", "Bytes being worked on.")
        self.offset_gap = gauge(of, "tracejudge_offset_gap_records", "Records a crash would repeat.")
        self.partitions = gauge(of, "tracejudge_partitions", "Partitions assigned.")
        self.lag = gauge(of, "tracejudge_lag_records", "Records not yet read.", "source", "partition")
        self.lag_seconds = gauge(of, "tracejudge_lag_seconds", "Age of unread records.", "source", "partition")
        self.stalled = gauge(of, "tracejudge_stalled", "1 while reading has stalled.")
        self.unfinished = gauge(of, "tracejudge_unfinished_seconds", "Since a record was finished.")
        name: MetricName = "tracejudge_queue_deleted_unread_total"
        self.deleted_unread = counter(of, name, "Records deleted unread.", "group")
        self.judges_gone = gauge(of, "tracejudge_judges_gone", "Judges that answer nobody.", "judge")

    def count_deleted_unread(self, group: str, records: int) -> None:
        """The queue deleted so many records that the group had still to read."""
        self.deleted_unread.labels(group).inc(records)

    def served(self, served: Iterable[Mapping[tuple[str, str], int]]) -> None:
        """Scores of judges that call a model, by judge and where the verdict came from. The share that came from
        "memory", "store" or "in_flight" is the cache's hit rate."""
        total: Tally[tuple[str, str]] = Tally()
        for one in served:
            for key, count in one.items():  # of one or two: `update` costs several times that
                total[key] += count
        for (judge, source), count in total.items():
            self.verdicts.labels(judge, source or "judge").inc(count)

    def scored(self, scores: Sequence[Score], ledger: Iterable[LedgerRow], calls: Sequence[JudgeCall]) -> None:
        """Counts rows that were stored. They come by the hundred, so each counter is looked up once for all of them."""
        for judge in {one.judge_name for one in scores}:
            own = [one for one in scores if one.judge_name == judge]
            outcomes = [one.outcome for one in own]
            for outcome in Outcome:
                if count := outcomes.count(outcome):  # an Enum's hash is a call of a function
                    self.scores.labels(judge, outcome.value).inc(count)
            ages = [one.judged_at - one.event_time for one in own]
            self.event_to_score.observe(judge, [max(0.0, age.total_seconds()) for age in ages])
            if Outcome.INVALID in outcomes:
                reasons = Tally([one.reason for one in own if one.outcome is Outcome.INVALID])
                for reason, count in reasons.items():
                    self.invalid.labels(judge, reason).inc(count)
        for (judge, decision), count in Tally([(row.judge_name, row.decision.value) for row in ledger]).items():
            self.ledger.labels(judge, decision).inc(count)
        for (judge, status), count in Tally([(call.judge_name, call.status) for call in calls]).items():
            self.calls.labels(judge, status).inc(count)
        for judge in {call.judge_name for call in calls}:
            self.judge_latency.observe(judge, [call.latency_ms / 1000 for call in calls if call.judge_name == judge])

    def watch_circuits(self, availability: Callable[[], Mapping[str, Availability]]) -> None:
        """Reads each judge's circuit when the metrics are scraped."""
        self.registry.register(_Circuits(availability))

    def set_lag(
        self, lag: Mapping[PartitionKey, int | None], behind_s: Mapping[PartitionKey, float] | None = None
    ) -> None:
        """The lag of the partitions at hand; what is not in it belongs to another process now."""
        self.lag.clear()
        self.lag_seconds.clear()
        for key, seconds in (behind_s or {}).items():
            self.lag_seconds.labels(key.source, str(key.partition)).set(seconds)
        for key, records in lag.items():
            if records is not None:
                self.lag.labels(key.source, str(key.partition)).set(records)


class _Circuits(Collector):
    """Asked at each scrape: a circuit's pause ends by itself, with nobody there to set a gauge."""

    def __init__(self, availability: Callable[[], Mapping[str, Availability]]) -> None:
        self._availability = availability

    def collect(self) -> Iterable[Metric]:
        name: MetricName = "tracejudge_judge_circuit"
        family = GaugeMetricFamily(name, "The judge's circuit.", labels=["judge", "state"])
        for judge, now in self._availability().items():
            for state in ("ok", "down", "gone"):
                family.add_metric([judge, state], float(now.state == state))
        yield family
