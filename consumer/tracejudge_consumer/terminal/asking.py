"""The question before what cannot be undone."""

from __future__ import annotations

import sys

import click


def require_consent(question: str) -> None:
    """Returns when somebody says yes. Raises Abort when they do not, and UsageError where nobody is there to answer."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as error:
        # click makes one of Ctrl-C and of an input that ends; only the latter is answered by an option.
        if isinstance(error.__context__, EOFError) and not sys.stdin.isatty():
            click.echo(err=True)  # the question stands there without its answer
            raise click.UsageError("cannot ask for confirmation without a terminal: give --yes") from error
        raise
    if not agreed:
        raise click.Abort
