"""The channels that come with the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracejudge.alerts.notifiers.settings import NotifierSettings
from tracejudge.alerts.notifiers.terminal import TerminalNotifier
from tracejudge.alerts.notifiers.webhook import WebhookNotifier
from tracejudge.alerts.notify import Notifier
from tracejudge.clock import Clock
from tracejudge.errors import SettingsError

__all__ = ["NotifierSettings", "TerminalNotifier", "WebhookNotifier", "build_notifiers"]


def build_notifiers(
    settings: Sequence[NotifierSettings], *, environ: Mapping[str, str], clock: Clock | None = None
) -> list[Notifier]:
    """The channels that the settings ask for.

    Raises SettingsError with every fault: a name used twice, a secret's variable that is not set.
    """
    faults: list[str] = []
    built: list[Notifier] = []
    names: set[str] = set()
    for number, channel in enumerate(settings):
        place = f"notifiers[{number}]"
        if channel.channel in names:
            faults.append(f"{place}.name: {channel.channel!r} names two channels; give each its own name")
        names.add(channel.channel)
        if channel.type == "terminal":
            built.append(TerminalNotifier(name=channel.channel))
            continue
        secret = environ.get(channel.secret_env) if channel.secret_env is not None else None
        if channel.secret_env is not None and not secret:
            faults.append(f"{place}.secret_env: the environment variable {channel.secret_env!r} is not set; export it")
            continue
        try:
            built.append(
                WebhookNotifier(
                    url=channel.url or "",
                    secret=secret.encode() if secret else None,
                    name=channel.channel,
                    allow_private=channel.allow_private,
                    timeout_s=channel.timeout_s,
                    clock=clock,
                )
            )
        except SettingsError as error:
            faults.extend(f"{place}.{fault}" for fault in error.faults)
    if faults:
        raise SettingsError(faults)
    return built
