"""Log records as JSON, one object a line: what happened, with ids, judges and reasons as fields, and never a text.

Beside the message only named fields are taken over from `extra`, and of an exception its type and where it was raised:
an exception's own words may hold a value that somebody logged.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import datetime, timezone
from typing import Any, Final

from tracejudge_consumer.terminal.rendering import to_json

FIELDS: Final = (
    "trace_id", "judge", "reason", "outcome", "app", "environment", "source", "partition", "offset", "event_id",
)  # fmt: skip
"""What a caller may pass in `extra`."""

_MAX_FRAMES: Final = 20


class JsonFormatter(logging.Formatter):
    """One line a record."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        values: dict[str, Any] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        values.update({name: record.__dict__[name] for name in FIELDS if name in record.__dict__})
        if record.exc_info and record.exc_info[0] is not None:
            values["exception"] = record.exc_info[0].__qualname__
            frames = traceback.extract_tb(record.exc_info[2])[-_MAX_FRAMES:]
            values["raised_at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return to_json(json.loads(json.dumps(values, default=str)))
