"""Progress lines of a long-running command, whose work goes on when the reader closes the pipe."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

_LOG = logging.getLogger(__name__)


@contextmanager
def perhaps_unread() -> Iterator[None]:
    """Around lines on stdout. `tracejudge up | head -1` closes a pipe (EPIPE), a window that is closed takes its
    terminal away (EIO); neither says that nobody wants alerts any more."""
    try:
        yield
    except OSError as error:
        _LOG.warning("standard output is closed (%s); the work continues", error)


def say(line: str) -> None:
    """Prints one line on stdout, as long as it has a reader."""
    with perhaps_unread():
        click.echo(line)
