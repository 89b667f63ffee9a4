"""The TOML file, and what relative paths in it mean."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tracejudge.errors import SettingsError


def beside(path: Path, name: str, value: Any) -> Any:
    """A relative path in the file's `queue` or `store` means beside the file, wherever the command is typed."""
    if name in ("queue", "store") and isinstance(value, str):
        for prefix in ("sqlite:///", "chdb:///"):
            rest = value.removeprefix(prefix)
            if rest != value and rest.strip("/") and not rest.startswith("/"):
                return f"{prefix}{(path.parent.absolute() / rest).as_posix()}"
    return prompts_beside(path, value) if name == "judges" else value


def prompts_beside(path: Path, judges: Any) -> Any:
    """The `[[judges]]` of the file at `path`: a relative `prompt_file` means beside that file."""
    if not isinstance(judges, list):
        return judges
    return [
        {**judge, "prompt_file": str(path.parent / judge["prompt_file"])}
        if isinstance(judge, dict) and isinstance(judge.get("prompt_file"), str)
        else judge
        for judge in judges
    ]


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file. Raises SettingsError when it cannot be read."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"{path}: is not TOML: {error}"]) from error
    except RecursionError as error:
        raise SettingsError([f"{path}: is nested too deep: flatten it"]) from error
    except FileNotFoundError as error:
        raise SettingsError([f"{path}: no such file; correct its name, or change to its folder"]) from error
    except OSError as error:  # the words alone: all of it would say the name again
        raise SettingsError([f"{path}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise SettingsError([f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8"]) from error
