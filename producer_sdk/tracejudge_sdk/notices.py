"""What the SDK writes to the service's log.

A handler or filter of the service may raise: one that asks for the current request does so in every thread without
one. That may end no thread of ours, lose no trace and reach no request.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final

_LOGGER: Final = logging.getLogger("tracejudge_sdk")


def warn(message: str, *args: object) -> None:
    """Logs a warning. Never raises."""
    with contextlib.suppress(Exception):
        _LOGGER.warning(message, *args, stacklevel=2)


def debug(message: str, *args: object) -> None:
    """Logs for debugging. Never raises."""
    with contextlib.suppress(Exception):
        _LOGGER.debug(message, *args, stacklevel=2)
