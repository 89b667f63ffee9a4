"""What of a trace may leave the process, as one setting of a client.

The steps over each record, in this order: only allowed fields, then the redaction hooks, then lengths and hashes where
texts are not captured. They run in the sending thread before a record is cut, encoded, spooled or sent.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracejudge_sdk.allow_list import AllowedFields, faults_of
from tracejudge_sdk.digests import Digester, DigestsOnly
from tracejudge_sdk.errors import ConfigError
from tracejudge_sdk.record_texts import ID_FIELDS, NAME_FIELDS
from tracejudge_sdk.redact import Hook, Redaction
from tracejudge_sdk.steps import RecordStep

PERSONAL_DATA = "personal_data"
"""The name of the ready hook, for settings."""


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """Raises ConfigError naming every fault."""

    redact: Sequence[Hook | str] = ()
    """Hooks, in order: `redact.Hook`, "personal_data" for the ready one, or "package.module:function"."""
    allow_fields: Collection[str] | None = None
    """The fields that are sent (`allow_list`); None is every field."""
    capture_text: bool = True
    """False: lengths and keyed hashes instead of texts (`digests`). Ids and names then go through the ready hook."""
    hash_key: str | None = field(default=None, repr=False)
    """The key of the hashes, a secret; None is a random one for this client."""

    def __post_init__(self) -> None:
        faults: list[str] = []
        if isinstance(self.redact, str) or not isinstance(self.redact, Sequence):
            faults.append(f"redact: {type(self.redact).__name__} is not a list of hooks")
        else:
            for hook in self.redact:
                try:
                    _found(hook)
                except ConfigError as error:
                    faults.append(str(error))
        if self.allow_fields is not None:
            if isinstance(self.allow_fields, str) or not isinstance(self.allow_fields, Collection):
                faults.append(f"allow_fields: {type(self.allow_fields).__name__} is not a list of names")
            else:
                faults += faults_of(self.allow_fields)
        if not isinstance(self.capture_text, bool):
            faults.append(f"capture_text: {self.capture_text!r:.80} is neither True nor False")
        if self.hash_key is not None and (not isinstance(self.hash_key, str) or len(self.hash_key) < 16):
            # Its value is a secret and not repeated.
            faults.append("hash_key: is not a text of at least 16 characters")
        if faults:
            raise ConfigError("; ".join(faults))

    def steps(self) -> tuple[RecordStep, ...]:
        """The steps over the records; none where everything may leave."""
        digester = Digester(self.hash_key)
        steps: list[RecordStep] = []
        if self.allow_fields is not None:
            steps.append(AllowedFields(self.allow_fields))
        hooks = [_found(hook) for hook in self.redact]
        if hooks or not self.capture_text:
            steps.append(Redaction(hooks or [_mask_ids_and_names], digester))
        if not self.capture_text:
            steps.append(DigestsOnly(digester, labels=self.allow_fields or ()))
        return tuple(steps)


def _ready_hook() -> Callable[[str, str], str]:
    from tracejudge_sdk.personal_data import mask_personal_data  # its patterns take a while to compile

    return mask_personal_data


def _mask_ids_and_names(text: str, field: str) -> str:
    return _ready_hook()(text, field) if field in ID_FIELDS or field in NAME_FIELDS else text


def _found(hook: Hook | str) -> Hook:
    if callable(hook):
        return hook
    if hook == PERSONAL_DATA:
        return _ready_hook()
    module_name, _, name = str(hook).partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ConfigError(
            f"redact: {hook!r:.200} could not be imported ({type(error).__name__}): "
            f"name {PERSONAL_DATA!r} or a function as package.module:function"
        ) from error
    if not callable(found):
        raise ConfigError(f"redact: {hook!r:.200} is not a function")
    return found  # type: ignore[no-any-return]
