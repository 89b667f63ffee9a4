"""The sections of the settings, one frozen model each; numbers carry their unit in the name."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from tracejudge.alerts import DriftPolicy
from tracejudge.alerts.durations import parse_duration, parse_false_alarms
from tracejudge.alerts.notifiers.exchange import parse_url
from tracejudge.alerts.rules.promise import USUAL, FalseAlarms, PlacePromise, Promises
from tracejudge.errors import SettingsError
from tracejudge.judging import Caps
from tracejudge.store.retention import Retention
from tracejudge.variable_name import VariableName
from tracejudge_consumer.intake.mapping_settings import MappingSettings


def _is_http_url(value: str) -> str:
    try:
        parse_url(value)
    except SettingsError as error:
        raise ValueError(error.faults[0].removeprefix("url: ")) from error
    return value


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ConsumerSettings(_Section):
    """How the queue is read. Sizes in records and bytes, times in seconds."""

    group: Annotated[str, Field(min_length=1)] = "tracejudge"
    batch_records: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    batch_wait_s: Annotated[float, Field(gt=0, le=60)] = 0.5
    max_in_flight_records: Annotated[int, Field(ge=1)] = 2_000
    max_in_flight_bytes: Annotated[int, Field(ge=1_000_000)] = 64_000_000
    commit_interval_s: Annotated[float, Field(gt=0)] = 1.0
    drain_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    max_dead_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    queue_keep_s: Annotated[float, Field(gt=0)] = 7 * 86_400.0
    queue_max_bytes: Annotated[int, Field(ge=1_000_000)] = 10_000_000_000
    judge_patience_s: Annotated[float, Field(ge=0)] = 300.0
    past_patience: Literal["undecided", "invalid"] = "undecided"
    parts_grace_s: Annotated[float, Field(gt=0)] = 900.0
    upkeep_interval_s: Annotated[float, Field(gt=0)] = 30.0


class IntakeSettings(_Section):
    """The form of the records, where it is not ours, and who knows the texts of passages that come as ids only."""

    mapping: MappingSettings | None = None
    resolve_nodes: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None = None


class AlertLoopSettings(_Section):
    """How often scores are folded, and how long a score must rest before it is."""

    tick_s: Annotated[float, Field(gt=0, le=60)] = 30.0
    settle_s: Annotated[float, Field(ge=0)] = 30.0


class AnchorSettings(_Section):
    """Which frozen traces are judged again, how often, by whom, and what a judge that moved does to quality alerts."""

    set: Annotated[str, Field(min_length=1)] | None = None
    every: str = "24h"
    judges: tuple[str, ...] = ()  # by name; empty: all that call a model
    max_calls_per_day: Annotated[int, Field(ge=0)] = 1000
    max_usd_per_day: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    agreement: Annotated[float, Field(ge=0.5, le=0.999)] | None = None
    false_alarms: str = "1 per 30d"
    on_judge_drift: Literal["mark", "hold"] = "mark"

    @field_validator("every")
    @classmethod
    def _every_parses(cls, text: str) -> str:
        if not timedelta(hours=1) <= parse_duration(text) <= timedelta(days=30):
            raise ValueError(f"{text!r} is not between 1 hour and 30 days; write it as '24h'")
        return text

    @field_validator("false_alarms")
    @classmethod
    def _false_alarms_parse(cls, text: str) -> str:
        parse_false_alarms(text)
        return text

    @property
    def interval(self) -> timedelta:
        return parse_duration(self.every)

    @property
    def policy(self) -> DriftPolicy:
        return DriftPolicy(false_alarms=self.false_alarms, agreement=self.agreement, on_judge_drift=self.on_judge_drift)


class AlertsSettings(_Section):
    """What is promised about false alarms, everywhere and in places; where the page about each alert goes, under which
    address it is found there, and whether it quotes traces."""

    false_alarms: FalseAlarms = USUAL
    places: tuple[PlacePromise, ...] = ()
    evidence_dir: Annotated[str, Field(min_length=1)] | None = None
    evidence_url: Annotated[str, AfterValidator(_is_http_url)] | None = None
    evidence_texts: bool = False

    @model_validator(mode="after")
    def _fits_together(self) -> AlertsSettings:
        if self.evidence_dir is None and (self.evidence_url is not None or self.evidence_texts):
            named = "evidence_url" if self.evidence_url is not None else "evidence_texts"
            raise ValueError(f"{named}: is about pages, and evidence_dir names no folder for them; set evidence_dir")
        return self

    @field_validator("places")
    @classmethod
    def _each_place_once(cls, places: tuple[PlacePromise, ...]) -> tuple[PlacePromise, ...]:
        Promises(places=places)
        return places

    @property
    def promises(self) -> Promises:
        return Promises(self.false_alarms, self.places)


class HeartbeatSettings(_Section):
    """Dead man's switches: URLs that hear from us while work gets on. What happens when they do not is theirs to do."""

    consumer: Annotated[str, AfterValidator(_is_http_url)] | None = None
    alert_loop: Annotated[str, AfterValidator(_is_http_url)] | None = None
    interval_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 10.0
    allow_private: bool = False


class GatewaySettings(_Section):
    """HTTP ingest: where it listens, under which names it is reached, and what it takes (`gateway.GatewayLimits`)."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    hosts: tuple[str, ...] = ()
    key_env: VariableName = "TRACEJUDGE_INGEST_KEY"
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    max_body_bytes: Annotated[int, Field(ge=1_000)] = 16_000_000
    max_unpacked_bytes: Annotated[int, Field(ge=1_000)] = 64_000_000
    max_lines: Annotated[int, Field(ge=1)] = 10_000
    max_connections: Annotated[int, Field(ge=1)] = 256
    max_in_flight_bytes: Annotated[int, Field(ge=1_000)] = 128_000_000
    read_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    answer_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    drain_timeout_s: Annotated[float, Field(gt=0)] = 10.0

    @model_validator(mode="after")
    def _fits_together(self) -> GatewaySettings:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file: give both, or neither")
        if self.max_unpacked_bytes > self.max_in_flight_bytes:
            raise ValueError(
                f"max_unpacked_bytes: {self.max_unpacked_bytes} is above max_in_flight_bytes, "
                f"{self.max_in_flight_bytes}: no request of that size could ever be accepted"
            )
        return self


class BudgetSettings(_Section):
    """Hard caps on all judges together, whole hours and days in UTC; each judge has its own beside them."""

    max_calls_per_h: Annotated[int, Field(ge=0)] | None = None
    max_calls_per_day: Annotated[int, Field(ge=0)] | None = None
    max_usd_per_h: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    max_usd_per_day: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None

    @property
    def caps(self) -> Caps:
        return Caps(**self.model_dump())


class CacheSettings(_Section):
    """Verdicts on equal content are paid for once. `entries` and `size_bytes` bound what is held in memory."""

    enabled: bool = True
    entries: Annotated[int, Field(ge=1)] = 100_000
    size_bytes: Annotated[int, Field(ge=100_000)] = 128_000_000


_Days = Annotated[int, Field(ge=1, le=36_500)]


class RetentionSettings(_Section):
    """How many days each kind of data is kept, counted from when it was stored; see `store.Retention`."""

    texts_d: _Days = 30
    dead_letters_d: _Days = 30
    cache_d: _Days = 30
    scores_d: _Days = 400
    costs_d: _Days = 400
    events_d: _Days = 400

    @model_validator(mode="after")
    def _fits_together(self) -> RetentionSettings:
        if self.texts_d > self.scores_d:
            raise ValueError(f"texts_d: {self.texts_d} is above scores_d, {self.scores_d}: a text goes with its trace")
        return self

    @property
    def times(self) -> Retention:
        return Retention(**self.model_dump())


class MetricsSettings(_Section):
    """Where Prometheus finds the consumer's metrics; port 0 means not at all."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
