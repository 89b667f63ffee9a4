"""How a channel is set up."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Name = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$")]


class NotifierSettings(BaseModel):
    """One channel. A secret is never written here: `secret_env` names the environment variable that holds it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["terminal", "webhook"]
    name: Name | None = None  # unique and stable; the type by default
    url: str | None = None  # webhook: where to POST
    secret_env: str | None = None  # webhook: signs every request (HMAC-SHA256)
    allow_private: bool = False  # webhook: may the address be loopback or in a private network
    timeout_s: float = Field(default=10.0, gt=0, le=60, allow_inf_nan=False)

    @property
    def channel(self) -> str:
        """The name under which deliveries are recorded."""
        return self.name or self.type

    @model_validator(mode="after")
    def _fits_the_type(self) -> NotifierSettings:
        if self.type == "webhook":
            if not self.url:
                raise ValueError("url: a webhook needs one, such as 'https://example.org/hook'")
            if not self.url.startswith(("https://", "http://")):
                raise ValueError("url: a webhook's must begin with https:// or http://")
        elif self.url or self.secret_env or self.allow_private:
            raise ValueError(f"type: {self.type!r} has no url, secret_env or allow_private; remove them")
        return self
