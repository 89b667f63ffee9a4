"""How a channel is set up."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from tracejudge.alerts.event import Severity

Name = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$")]
ChannelType = Literal["terminal", "webhook", "slack", "pagerduty", "alertmanager", "email"]

_TAKES: Final[dict[str, frozenset[str]]] = {
    "terminal": frozenset(),
    "webhook": frozenset({"url", "secret_env", "allow_private"}),
    "slack": frozenset({"secret_env", "allow_private"}),
    "pagerduty": frozenset({"url", "secret_env", "allow_private"}),
    "alertmanager": frozenset({"url", "secret_env", "allow_private"}),
    "email": frozenset({"host", "port", "tls", "user", "sender", "recipients", "secret_env", "allow_private"}),
}
_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "webhook": ("url",),
    "slack": ("secret_env",),
    "pagerduty": ("secret_env",),
    "alertmanager": ("url",),
    "email": ("host", "sender", "recipients"),
}


class NotifierSettings(BaseModel):
    """One channel. A secret is never written here: `secret_env` names the environment variable that holds it.

    The secret is: of a webhook the key that signs, of slack the whole URL of the incoming webhook, of pagerduty the
    routing key, of alertmanager a bearer token, of email the password.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: ChannelType
    name: Name | None = None  # unique and stable; the type by default
    severities: tuple[Severity, ...] = ("page", "ticket")  # what this channel hears of
    url: str | None = None  # where to POST
    secret_env: str | None = None
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

    @model_validator(mode="after")
    def _fits_the_type(self) -> NotifierSettings:
        for field in _NEEDS.get(self.type, ()):
            if not getattr(self, field):
                example = {"url": " such as 'https://example.org/hook'"}.get(field, "")
                raise ValueError(f"{field}: a channel of type {self.type} needs one{example}")
        if self.url is not None and not self.url.startswith(("https://", "http://")):
            raise ValueError("url: must begin with https:// or http://")
        common = {"type", "name", "severities", "timeout_s"}
        wrong = sorted(self.model_fields_set - common - _TAKES[self.type])
        if wrong:
            raise ValueError(f"type: {self.type!r} has no {', '.join(wrong)}; remove them")
        if not self.severities:
            raise ValueError("severities: is empty, so that this channel would never hear of anything; remove it")
        return self
