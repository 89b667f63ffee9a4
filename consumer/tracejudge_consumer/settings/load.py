"""From the file and the environment to the settings; all faults are said at once."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_settings import SettingsError as _SourceError

from tracejudge.errors import SettingsError
from tracejudge.judging import check_caps
from tracejudge_consumer.settings.faults import faults_of
from tracejudge_consumer.settings.file import beside, read_toml
from tracejudge_consumer.settings.model import Settings, cross_faults
from tracejudge_consumer.settings.secrets import is_secret_name

_NOWHERE: Final = {"queue": "sqlite:///queue.db", "store": "chdb:///store"}


def load_settings(path: str | Path, *, require_caps: bool = True, connects: bool = True) -> Settings:
    """The settings of the file at `path`, overridden by the environment.

    The file may be absent when TRACEJUDGE_QUEUE and TRACEJUDGE_STORE are set. A judge that calls a model must have a
    cap, unless `require_caps` is False because the caller sets one of its own. `connects` False says that the caller
    opens neither queue nor store: they may be missing. Raises SettingsError with every fault.
    """
    path = Path(path)
    values: dict[str, Any] = {}
    if path.exists():
        values = {name: beside(path, name, value) for name, value in read_toml(path).items()}
    elif not {"TRACEJUDGE_QUEUE", "TRACEJUDGE_STORE"} <= os.environ.keys():
        raise SettingsError(
            [f"{path}: no such file: `tracejudge init` writes one, or name another with --config or TRACEJUDGE_CONFIG"]
        )
    if not connects:
        missing = {name for name in _NOWHERE if f"TRACEJUDGE_{name.upper()}" not in os.environ}
        values = {**{name: _NOWHERE[name] for name in missing}, **values}
    options = values.get("queue_options")
    secrets = [name for name in options if is_secret_name(str(name))] if isinstance(options, dict) else []
    if secrets:
        raise SettingsError(
            [
                f"{path}: queue_options.{name}: a secret must not be in the file; set "
                f"{'TRACEJUDGE_QUEUE_PASSWORD' if name == 'sasl_plain_password' else 'TRACEJUDGE_QUEUE_OPTIONS (JSON)'}"
                " in the environment"
                for name in secrets
            ]
        )
    unknown = _unknown_variables()
    if unknown:
        raise SettingsError([f"environment: {name}: is not a setting; check for a typo" for name in unknown])
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise SettingsError([f"{_source(path, fault)}: {fault}" for fault in faults_of(error)]) from error
    except _SourceError as error:
        raise SettingsError([f"environment: {error}: nested values in TRACEJUDGE_* variables are JSON"]) from error
    faults = [
        *cross_faults(settings),
        *(check_caps(settings.judges, total=settings.budget.caps) if require_caps else ()),
    ]
    if faults:
        raise SettingsError([f"{path}: {fault}" for fault in faults])
    return settings


def _source(path: Path, fault: str) -> str:
    """Where the value stands that a fault is about: a variable overrides the file."""
    variable = f"TRACEJUDGE_{fault.partition(':')[0].upper().replace('.', '__')}"
    return f"environment: {variable}" if variable in os.environ else str(path)


def _unknown_variables() -> list[str]:
    """TRACEJUDGE_* variables that look like a setting of ours and are none: a typing error that would change nothing.

    Nested ones begin with a section of ours. Others may belong to the SDK, or hold a key under a name that a user
    chose: of these only near misses are told.
    """
    ours = {f"TRACEJUDGE_{name.upper()}" for name in Settings.model_fields}
    unknown = []
    for name in sorted(name for name in os.environ if name.startswith("TRACEJUDGE_")):
        head, nested, _ = name.partition("__")
        near = head not in ours and get_close_matches(head, ours, n=1, cutoff=0.9)
        if (nested and head not in ours) or near:
            unknown.append(name)
    return unknown
