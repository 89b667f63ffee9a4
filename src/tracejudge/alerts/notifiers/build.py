"""From settings to channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tracejudge.alerts.notifiers.sendable import sendable
from tracejudge.alerts.notifiers.settings import NotifierSettings
from tracejudge.alerts.notifiers.terminal import TerminalNotifier
from tracejudge.alerts.telling.notify import Notifier
from tracejudge.clock import Clock
from tracejudge.errors import SettingsError


def build_notifier(channel: NotifierSettings, *, environ: Mapping[str, str], clock: Clock | None = None) -> Notifier:
    """One channel, with its secret taken from `environ`. Raises SettingsError."""
    secret = environ.get(channel.secret_env) if channel.secret_env is not None else None
    if channel.secret_env is not None and not secret:
        raise SettingsError([f"secret_env: the environment variable {channel.secret_env!r} is not set; export it"])
    if secret is not None and channel.type in ("slack", "pagerduty", "alertmanager"):
        secret = secret.strip()  # a file's last line break
        if not sendable(secret):
            raise SettingsError(
                [f"secret_env: the value of {channel.secret_env!r} holds a space or a character that is none of a URL "
                 "or a token; export it without"]
            )  # fmt: skip
    return _built(channel, secret, clock)


def _built(channel: NotifierSettings, secret: str | None, clock: Clock | None) -> Notifier:
    if channel.type == "terminal":
        return TerminalNotifier(name=channel.channel)
    if channel.type == "email":
        from tracejudge.alerts.notifiers.email import EmailNotifier

        return EmailNotifier(
            host=channel.host or "",
            port=channel.port,
            sender=channel.sender or "",
            recipients=channel.recipients,
            user=channel.user,
            password=secret,
            tls=channel.tls,
            name=channel.channel,
            allow_private=channel.allow_private,
            timeout_s=channel.timeout_s,
            clock=clock,
        )
    if channel.type == "apprise":
        from tracejudge.alerts.notifiers.apprise import AppriseNotifier

        return AppriseNotifier(
            urls=secret or "",
            name=channel.channel,
            allow_private=channel.allow_private,
            timeout_s=channel.timeout_s,
        )
    # http and TLS: only for those who use them.
    from tracejudge.alerts.notifiers import formats
    from tracejudge.alerts.notifiers.http import HttpGroupNotifier, HttpNotifier
    from tracejudge.alerts.notifiers.webhook import WebhookNotifier

    if channel.type == "webhook":
        return WebhookNotifier(
            url=channel.url or "",
            secret=secret.encode() if secret else None,
            name=channel.channel,
            allow_private=channel.allow_private,
            timeout_s=channel.timeout_s,
            clock=clock,
        )
    common: dict[str, Any] = {
        "name": channel.channel,
        "allow_private": channel.allow_private,
        "timeout_s": channel.timeout_s,
        "clock": clock,
    }
    if channel.type == "slack":
        return HttpGroupNotifier(
            url=secret or "", encode=formats.slack_body, encode_all=formats.slack_message, **common
        )
    if channel.type == "pagerduty":
        encode = partial(formats.pagerduty_body, routing_key=secret or "")
        return HttpNotifier(url=channel.url or formats.PAGERDUTY_URL, encode=encode, **common)
    bearer = {"Authorization": f"Bearer {secret}"} if secret else {}
    return HttpGroupNotifier(
        url=(channel.url or "").rstrip("/") + "/api/v2/alerts",
        encode=partial(formats.alertmanager_body, severities=channel.severities),
        encode_all=partial(formats.alertmanager_message, severities=channel.severities),
        headers=lambda _ident, _body: bearer,
        **common,
    )


def build_notifiers(
    channels: Sequence[NotifierSettings], *, environ: Mapping[str, str], clock: Clock | None = None
) -> list[Notifier]:
    """The notifiers of all channels. Raises SettingsError with every fault: a name used twice, a secret's variable that
    is not set."""
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
