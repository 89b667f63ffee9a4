"""The settings: one TOML file, overridden by the environment, read once at the top into frozen values.

The environment wins over the file: `TRACEJUDGE_QUEUE`, `TRACEJUDGE_STORE`, and for nested keys two underscores, as in
`TRACEJUDGE_CONSUMER__GROUP`. Secrets come from the environment only: `TRACEJUDGE_STORE_PASSWORD`,
`TRACEJUDGE_QUEUE_PASSWORD`, `TRACEJUDGE_INGEST_KEY`, and for each judge and webhook the variable that its
settings name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as _SourceError

from tracejudge.alerts.notifiers import NotifierSettings
from tracejudge.alerts.notifiers.exchange import parse_url
from tracejudge.alerts.rule import AnyRule
from tracejudge.errors import SettingsError
from tracejudge.judging import Caps, JudgeSpec, check_caps
from tracejudge.sampling import SamplingPolicy
from tracejudge.store.retention import Retention
from tracejudge_consumer.intake.mapping_settings import MappingSettings
from tracejudge_sdk.errors import ConfigError
from tracejudge_sdk.transports import parse_queue_url

_STORE_SCHEMES = ("chdb", "clickhouse", "clickhouses")


def _is_queue_url(value: str) -> str:
    try:
        parse_queue_url(value)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return value


def _is_store_url(value: str) -> str:
    scheme, separator, rest = value.partition("://")
    if not separator or scheme not in _STORE_SCHEMES or not rest.strip("/"):
        raise ValueError(
            'is not a store: write "chdb:///FOLDER" (embedded) or "clickhouse://USER@HOST:PORT/DATABASE" '
            "(clickhouses:// for TLS)"
        )
    return value


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
    batch_records: Annotated[int, Field(ge=1, le=10_000)] = 500
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
    key_env: Annotated[str, Field(min_length=1)] = "TRACEJUDGE_INGEST_KEY"
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
                f"{self.max_in_flight_bytes}: no request of that size could ever be taken"
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


def load_settings(path: str | Path, *, require_caps: bool = True) -> Settings:
    """The settings of the file at `path`, overridden by the environment.

    The file may be absent when TRACEJUDGE_QUEUE and TRACEJUDGE_STORE are set. A judge that calls a model must have a
    cap, unless `require_caps` is False because the caller sets one of its own. Raises SettingsError with every fault.
    """
    path = Path(path)
    values: dict[str, Any] = {}
    if path.exists():
        values = {name: _beside(path, name, value) for name, value in read_toml(path).items()}
    elif not {"TRACEJUDGE_QUEUE", "TRACEJUDGE_STORE"} <= os.environ.keys():
        raise SettingsError(
            [f"{path}: no such file: `tracejudge init` writes one, or name another with --config or TRACEJUDGE_CONFIG"]
        )
    options = values.get("queue_options")
    secrets = [name for name in options if is_secret_name(str(name))] if isinstance(options, dict) else []
    if secrets:
        raise SettingsError(
            [
                f"{path}: queue_options.{name}: a secret does not belong into the file; set "
                f"{'TRACEJUDGE_QUEUE_PASSWORD' if name == 'sasl_plain_password' else 'TRACEJUDGE_QUEUE_OPTIONS (JSON)'}"
                " in the environment"
                for name in secrets
            ]
        )
    unknown = _unknown_variables()
    if unknown:
        raise SettingsError([f"environment: {name}: is not a setting; look for a typing error" for name in unknown])
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise SettingsError([f"{path}: {fault}" for fault in faults_of(error)]) from error
    except _SourceError as error:
        raise SettingsError([f"environment: {error}: nested values in TRACEJUDGE_* variables are JSON"]) from error
    faults = [
        *_cross_faults(settings),
        *(check_caps(settings.judges, total=settings.budget.caps) if require_caps else ()),
    ]
    if faults:
        raise SettingsError([f"{path}: {fault}" for fault in faults])
    return settings


def _unknown_variables() -> list[str]:
    """TRACEJUDGE_* variables that look like a setting of ours and are none: a typing error that would change nothing.

    Nested ones begin with a section of ours. Others may belong to the SDK, or hold a key under a name that a user
    chose: of these only near misses are told.
    """
    ours = {f"TRACEJUDGE_{name.upper()}" for name in Settings.model_fields}
    unknown = []
    for name in sorted(name for name in os.environ if name.startswith("TRACEJUDGE_")):
        head, nested, _ = name.partition("__")
        near = head not in ours and get_close_matches(head, ours, n=1, cutoff=0.9)
        if (nested and head not in ours) or near:
            unknown.append(name)
    return unknown


def faults_of(error: ValidationError) -> list[str]:
    """One line for each fault that pydantic found: the key as it stands in TOML, what is wrong, the value seen."""
    lines = []
    for fault in error.errors(include_url=False, include_context=False):
        key = ""
        for step in _steps(fault["loc"]):
            key += f"[{step}]" if isinstance(step, int) else f".{step}" if key else str(step)
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "missing":
            lines.append(f"{key}: is missing; deploy/settings.example.toml shows it")
        elif fault["type"] == "extra_forbidden":
            lines.append(f"{key}: is not a setting; look for a typing error, or in deploy/settings.example.toml")
        elif _may_hold_a_secret(key):
            # What was refused may be a password in the wrong place: it is not repeated on a screen or in a log.
            lines.append(f"{key}: {message}")
        else:
            seen = repr(fault["input"])
            lines.append(f"{key}: {message}, got {seen if len(seen) <= 60 else seen[:57] + '...'}")
    return lines


def _steps(path: tuple[int | str, ...]) -> Iterable[int | str]:
    """The path as it stands in the file: pydantic adds the type of a rule after its number."""
    for number, step in enumerate(path):
        if not (number == 2 and path[0] == "rules" and step in ("minimum", "drift", "max_drop")):
            yield step


def _may_hold_a_secret(key: str) -> bool:
    return any(
        word in key
        for word in ("queue", "store", "url", "options", "extra_body", "judges", "notifiers", "env", "heartbeat")
    )


def shown(settings: Settings) -> dict[str, Any]:
    """The settings as JSON values that may be printed: no password, no webhook path, nothing that is named a secret."""
    values: dict[str, Any] = _without_secrets(settings.model_dump(mode="json"))
    values["queue"], values["store"] = without_password(settings.queue), without_password(settings.store)
    for notifier in values["notifiers"]:
        notifier["url"] = _without_path(notifier["url"])
    for name in ("consumer", "alert_loop"):
        values["heartbeat"][name] = _without_path(values["heartbeat"][name])
    return values


def _without_path(url: str | None) -> str | None:
    """The path of a webhook or a heartbeat is often its secret."""
    if not url:
        return url
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}/***"


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "***" if is_secret_name(str(key)) and item else _without_secrets(item) for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value


def is_secret_name(name: str) -> bool:
    """True for names such as sasl_plain_password; not for names of variables (api_key_env) or counts (max_tokens)."""
    lowered = name.lower()
    if lowered.endswith(("_env", "tokens")):
        return False
    return any(word in lowered for word in ("password", "secret", "api_key", "apikey", "token", "authorization"))


def without_password(url: str) -> str:
    """The URL as it may be shown and logged."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    netloc = parts.netloc.replace(f":{parts.password}@", ":***@", 1)
    return urlunsplit(parts._replace(netloc=netloc))


def _beside(path: Path, name: str, value: Any) -> Any:
    """A relative path in the file's `queue` or `store` means beside the file, wherever the command is typed."""
    if name in ("queue", "store") and isinstance(value, str):
        for prefix in ("sqlite:///", "chdb:///"):
            rest = value.removeprefix(prefix)
            if rest != value and rest.strip("/") and not rest.startswith("/"):
                return f"{prefix}{(path.parent.absolute() / rest).as_posix()}"
    return prompts_beside(path, value) if name == "judges" else value


def prompts_beside(path: Path, judges: Any) -> Any:
    """The `[[judges]]` of the file at `path`: a relative `prompt_file` means beside that file."""
    if not isinstance(judges, list):
        return judges
    return [
        {**judge, "prompt_file": str(path.parent / judge["prompt_file"])}
        if isinstance(judge, dict) and isinstance(judge.get("prompt_file"), str)
        else judge
        for judge in judges
    ]


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file. Raises SettingsError when it cannot be read."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"{path}: is not TOML: {error}"]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"{path}: cannot be read: {error}"]) from error


def _cross_faults(settings: Settings) -> Iterable[str]:
    names = [spec.name for spec in settings.judges]
    known = ", ".join(map(repr, names)) or "none"
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"judges: {name!r} is defined twice; every judge needs a name of its own"
    for rule in settings.rules:
        if rule.judge not in names:
            yield f"rules: {rule.name!r} watches judge {rule.judge!r}, which is not one of {known}"
        elif any(spec.shadow for spec in settings.judges if spec.name == rule.judge):
            yield f"rules: {rule.name!r} watches judge {rule.judge!r}, whose shadow = true says that it raises no alert"
    rule_names = [rule.name for rule in settings.rules]
    for name in sorted({name for name in rule_names if rule_names.count(name) > 1}):
        yield f"rules: {name!r} is defined twice; every rule needs a name of its own"
    for name in sorted(settings.sampling.judge_names() - set(names)):
        yield f"sampling: judge {name!r} is not one of {known}"
