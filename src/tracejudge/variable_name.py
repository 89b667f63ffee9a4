"""The name of an environment variable, in settings that must never hold what the variable holds."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _named(text: str) -> str:
    if not _NAME.fullmatch(text):
        # Most likely the key or the URL itself. Taken for a name it would be told to everybody as one that is not set.
        raise ValueError(
            "is not the name of an environment variable (letters, digits and _): name the variable that holds the "
            "secret, never the secret itself"
        )
    return text


VariableName: TypeAlias = Annotated[str, AfterValidator(_named)]
