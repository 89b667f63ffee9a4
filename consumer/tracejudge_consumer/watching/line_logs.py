"""Log records as lines for people: a record quotes what others sent, and must neither steer the terminal that shows it
nor begin a line that looks like a record of ours."""

from __future__ import annotations

import logging

from tracejudge_consumer.terminal.rendering import harmless, ident


class LineFormatter(logging.Formatter):
    """One line a record, and its traceback, if it has one, on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return ident(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record))
