"""How a channel is set up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from tracejudge.alerts.durations import parse_duration
from tracejudge.alerts.event import Severity
from tracejudge.alerts.telling.channels import UNLIMITED, ChannelPolicy, parse_rate
from tracejudge.variable_name import VariableName

Name = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$")]
ChannelType = Literal["terminal", "webhook", "slack", "pagerduty", "alertmanager", "email", "apprise"]
MatchField = Literal["environment", "app", "judge", "rule"]

_TAKES: Final[dict[str, frozenset[str]]] = {
    "terminal": frozenset(),
    "webhook": frozenset({"url", "secret_env", "allow_private"}),
    "slack": frozenset({"secret_env", "allow_private"}),
    "pagerduty": frozenset({"url", "secret_env", "allow_private"}),
    "alertmanager": frozenset({"url", "secret_env", "allow_private"}),
    "email": frozenset({"host", "port", "tls", "user", "sender", "recipients", "secret_env", "allow_private"}),
    "apprise": frozenset({"secret_env", "allow_private"}),
}
_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "webhook": ("url",),
    "slack": ("secret_env",),
    "pagerduty": ("secret_env",),
    "alertmanager": ("url",),
    "email": ("host", "sender", "recipients"),
    "apprise": ("secret_env",),
}
_GROUPS: Final[dict[str, bool]] = {
    "slack": True,
    "alertmanager": True,
    "email": True,
    "apprise": True,
    "webhook": False,
}
"""Of the channels that can say several events at once: whether they do, unless told otherwise."""
_LIMITS: Final[dict[str, str]] = {"slack": "30 per 1h", "email": "30 per 1h", "apprise": "30 per 1h"}
"""Of the channels that people read; programs are sent 600 an hour, and a terminal everything."""


class NotifierSettings(BaseModel):
    """One channel. A secret is never written here: `secret_env` names the environment variable that holds it.

    The secret is: of a webhook the key that signs, of slack the whole URL of the incoming webhook, of pagerduty the
    routing key, of alertmanager a bearer token, of email the password,
    of apprise the URLs of its services, with spaces between.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: ChannelType
    name: Name | None = None  # unique and stable; the type by default
    severities: tuple[Severity, ...] = ("page", "ticket")  # what this channel hears of
    match: Mapping[MatchField, str] = Field(default_factory=dict)  # hears only of what has these values
    group: bool | None = None  # several events of an application in one message; by default where people read them
    max_messages: str | None = None  # "30 per 1h", or "unlimited"; by default 30 an hour for people, 600 for programs
    down_after: str = "5m"  # taking nothing for so long, a channel is dead, which the others are told
    url: str | None = None  # where to POST
    secret_env: VariableName | None = None
    allow_private: bool = False  # may the address be loopback or in a private network
    timeout_s: float = Field(default=10.0, gt=0, le=60, allow_inf_nan=False)
    host: str | None = None  # email: the SMTP server
    port: int = Field(default=587, ge=1, le=65535)
    tls: bool = False  # email: TLS from the first byte (port 465); else STARTTLS where there is a password
    user: str | None = None  # email: the login, the sender by default
    sender: str | None = None
    recipients: tuple[str, ...] = ()

    @property
    def channel(self) -> str:
        """The name under which deliveries are recorded."""
        return self.name or self.type

    @property
    def max_messages_text(self) -> str:
        """The rate limit as it is set, or the default of the channel's type."""
        if self.max_messages is not None:
            return self.max_messages
        return _LIMITS.get(self.type, UNLIMITED if self.type == "terminal" else "600 per 1h")

    @property
    def policy(self) -> ChannelPolicy:
        """The channel's policy: which events it is sent, how often, and when it counts as dead."""
        return ChannelPolicy(
            severities=frozenset(self.severities),
            match={str(name): value for name, value in self.match.items()},
            group=_GROUPS.get(self.type, False) if self.group is None else self.group,
            rate=parse_rate(self.max_messages_text),
            down_after=parse_duration(self.down_after),
        )

    @field_validator("max_messages")
    @classmethod
    def _max_messages_parses(cls, text: str | None) -> str | None:
        if text is not None:
            parse_rate(text)
        return text

    @field_validator("down_after")
    @classmethod
    def _down_after_parses(cls, text: str) -> str:
        parse_duration(text)
        return text

    @model_validator(mode="after")
    def _fits_the_type(self) -> NotifierSettings:
        for field in _NEEDS.get(self.type, ()):
            if not getattr(self, field):
                example = {"url": " such as 'https://example.org/hook'"}.get(field, "")
                raise ValueError(f"{field}: a channel of type {self.type} needs one{example}")
        if self.url is not None and not self.url.startswith(("https://", "http://")):
            raise ValueError("url: must begin with https:// or http://")
        common = {"type", "name", "severities", "timeout_s", "match", "max_messages", "down_after"}
        if self.group and self.type not in _GROUPS:
            raise ValueError(f"group: a channel of type {self.type} is told each event by itself; remove it")
        wrong = sorted(self.model_fields_set - common - {"group"} - _TAKES[self.type])
        if wrong:
            raise ValueError(f"type: {self.type!r} has no {', '.join(wrong)}; remove them")
        if not self.severities:
            raise ValueError("severities: is empty, so that this channel would never hear of anything; remove it")
        return self
