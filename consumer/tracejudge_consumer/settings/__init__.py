"""The settings: one TOML file, overridden by the environment, read once at the top into frozen values.

The environment wins over the file: `TRACEJUDGE_QUEUE`, `TRACEJUDGE_STORE`, and for nested keys two underscores, as in
`TRACEJUDGE_CONSUMER__GROUP`. Secrets come from the environment only: `TRACEJUDGE_STORE_PASSWORD`,
`TRACEJUDGE_QUEUE_PASSWORD`, `TRACEJUDGE_INGEST_KEY`, and for each judge and webhook the variable that its
settings name.
"""

from __future__ import annotations

from tracejudge_consumer.settings.faults import faults_of
from tracejudge_consumer.settings.file import prompts_beside, read_toml
from tracejudge_consumer.settings.load import load_settings
from tracejudge_consumer.settings.model import Settings
from tracejudge_consumer.settings.secrets import is_secret_name, shown, without_password
from tracejudge_consumer.settings.sections import (
    AlertLoopSettings,
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

__all__ = [
    "AlertLoopSettings",
    "AnchorSettings",
    "BudgetSettings",
    "CacheSettings",
    "ConsumerSettings",
    "GatewaySettings",
    "HeartbeatSettings",
    "IntakeSettings",
    "MetricsSettings",
    "RetentionSettings",
    "Settings",
    "faults_of",
    "is_secret_name",
    "load_settings",
    "prompts_beside",
    "read_toml",
    "shown",
    "without_password",
]
