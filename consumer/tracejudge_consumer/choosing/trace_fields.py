"""`--where FIELD=VALUE` and the fields of a trace that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from tracejudge.store import TRACE_FIELDS, is_trace_field

_Command = TypeVar("_Command", bound=Callable[..., Any])


def where_option(command: _Command) -> _Command:
    """`--where FIELD=VALUE`, which may be repeated."""
    return click.option(
        "--where", "also", multiple=True, metavar="FIELD=VALUE", help="Only where the trace's field is this."
    )(command)


def trace_fields(also: Iterable[str]) -> dict[str, str]:
    """What was asked of fields of the trace. Raises BadParameter for a field that there is not."""
    found = {}
    for text in also:
        name, separator, value = text.partition("=")
        if not separator or not is_trace_field(name):
            raise click.BadParameter(
                f"{text!r} is not FIELD=VALUE with {', '.join(TRACE_FIELDS)} or tags.NAME", param_hint="--where"
            )
        found[name] = value
    return found
