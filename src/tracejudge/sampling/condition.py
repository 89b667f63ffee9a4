"""Conditions on a trace, as plain TOML."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Condition(BaseModel):
    """`{ field = "status", is = "error" }`, `{ all = [...] }` or `{ any = [...] }`."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
