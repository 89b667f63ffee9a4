"""From settings to channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracejudge.alerts.notifiers.settings import NotifierSettings
from tracejudge.alerts.notifiers.terminal import TerminalNotifier
from tracejudge.alerts.notify import Notifier
from tracejudge.clock import Clock
from tracejudge.errors import SettingsError


def build_notifier(channel: NotifierSettings, *, environ: Mapping[str, str], clock: Clock | None = None) -> Notifier:
    """One channel, with its secret taken from `environ`. Raises SettingsError."""
    if channel.type == "terminal":
        return TerminalNotifier(name=channel.channel)
    from tracejudge.alerts.notifiers.webhook import WebhookNotifier  # http and TLS: only for those who use them

    secret = environ.get(channel.secret_env) if channel.secret_env is not None else None
    if channel.secret_env is not None and not secret:
        raise SettingsError([f"secret_env: the environment variable {channel.secret_env!r} is not set; export it"])
    return WebhookNotifier(
        url=channel.url or "",
        secret=secret.encode() if secret else None,
        name=channel.channel,
        allow_private=channel.allow_private,
        timeout_s=channel.timeout_s,
        clock=clock,
    )


def build_notifiers(
    channels: Sequence[NotifierSettings], *, environ: Mapping[str, str], clock: Clock | None = None
) -> list[Notifier]:
    """All channels. Raises SettingsError with every fault: a name used twice, a secret's variable that is not set."""
    faults: list[str] = []
    built: list[Notifier] = []
    names: set[str] = set()
    for number, channel in enumerate(channels):
        if channel.channel in names:
            faults.append(
                f"notifiers[{number}].name: {channel.channel!r} names two channels, but deliveries are recorded by it; "
                "choose another"
            )
        names.add(channel.channel)
        try:
            built.append(build_notifier(channel, environ=environ, clock=clock))
        except SettingsError as error:
            faults.extend(f"notifiers[{number}].{fault}" for fault in error.faults)
    if faults:
        raise SettingsError(faults)
    return built
