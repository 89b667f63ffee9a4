"""Everything that can be set, as one frozen value, and what must hold between its sections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from tracejudge.alerts import JUDGE_DRIFT_RULE
from tracejudge.alerts.notifiers import NotifierSettings
from tracejudge.alerts.rules.rule import AnyRule
from tracejudge.errors import SettingsError
from tracejudge.judging import JudgeSpec
from tracejudge.sampling import SamplingPolicy
from tracejudge.store.target import parse_store_url
from tracejudge_consumer.settings.sections import (
    AlertLoopSettings,
    AlertsSettings,
    AnchorSettings,
    BudgetSettings,
    CacheSettings,
    ConsumerSettings,
    GatewaySettings,
    HeartbeatSettings,
    IntakeSettings,
    MetricsSettings,
    RetentionSettings,
)
from tracejudge_sdk.errors import ConfigError
from tracejudge_sdk.transports import parse_queue_url

_STORE_SCHEMES = ("chdb", "clickhouse", "clickhouses")


def _is_queue_url(value: str) -> str:
    try:
        parse_queue_url(value)
    except ConfigError as error:
        raise ValueError(str(error).removeprefix("queue: ")) from error
    return value


def _is_store_url(value: str) -> str:
    scheme, separator, rest = value.partition("://")
    if not separator or scheme not in _STORE_SCHEMES or not rest.strip("/"):
        raise ValueError(
            'is not a store: write "chdb:///FOLDER" (embedded) or "clickhouse://USER@HOST:PORT/DATABASE" '
            "(clickhouses:// for TLS)"
        )
    try:
        parse_store_url(value)
    except SettingsError as error:
        raise ValueError("; ".join(fault.removeprefix("store: ") for fault in error.faults)) from error
    return value


class Settings(BaseSettings):
    """Everything that can be set. `deploy/settings.example.toml` documents each key with unit and default."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="TRACEJUDGE_",
        env_nested_delimiter="__",
        nested_model_default_partial_update=True,
    )

    queue: Annotated[str, AfterValidator(_is_queue_url)]
    queue_options: dict[str, Any] = Field(default_factory=dict)
    store: Annotated[str, AfterValidator(_is_store_url)]
    store_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["text", "json"] = "text"
    consumer: ConsumerSettings = ConsumerSettings()
    intake: IntakeSettings = IntakeSettings()
    judges: tuple[JudgeSpec, ...] = (JudgeSpec(name="lexical", kind="lexical"),)
    budget: BudgetSettings = BudgetSettings()
    cache: CacheSettings = CacheSettings()
    sampling: SamplingPolicy = SamplingPolicy()
    rules: tuple[AnyRule, ...] = ()
    notifiers: tuple[NotifierSettings, ...] = ()
    alert_loop: AlertLoopSettings = AlertLoopSettings()
    anchors: AnchorSettings = AnchorSettings()
    alerts: AlertsSettings = AlertsSettings()
    metrics: MetricsSettings = MetricsSettings()
    retention: RetentionSettings = RetentionSettings()
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    gateway: GatewaySettings = GatewaySettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The file comes in as init values; the environment stands before it, so that a container changes one key.
        return env_settings, init_settings


def cross_faults(settings: Settings) -> Iterable[str]:
    """What each section allows and another forbids: names that are defined twice or not at all."""
    names = [spec.name for spec in settings.judges]
    known = ", ".join(map(repr, names)) or "none"
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"judges: {name!r} is defined twice; give every judge its own name"
    for rule in settings.rules:
        if rule.judge not in names:
            yield f"rules: {rule.name!r} watches judge {rule.judge!r}, which is not one of {known}"
        elif any(spec.shadow for spec in settings.judges if spec.name == rule.judge):
            yield f"rules: {rule.name!r} watches judge {rule.judge!r}, whose shadow = true says that it raises no alert"
    rule_names = [rule.name for rule in settings.rules]
    for name in sorted({name for name in rule_names if rule_names.count(name) > 1}):
        yield f"rules: {name!r} is defined twice; give every rule its own name"
    if JUDGE_DRIFT_RULE in rule_names:
        yield f"rules: {JUDGE_DRIFT_RULE!r} is reserved for the monitoring of judges with anchors; choose another name"
    for name in sorted(set(settings.anchors.judges) - set(names)):
        yield f"anchors.judges: judge {name!r} is not one of {known}"
    for name in sorted(settings.sampling.judge_names() - set(names)):
        yield f"sampling: judge {name!r} is not one of {known}"
