"""What of the settings may be shown: never a password, a token, or the path of a webhook."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tracejudge_consumer.settings.model import Settings


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
