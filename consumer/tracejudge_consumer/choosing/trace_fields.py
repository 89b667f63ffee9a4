"""`--where FIELD=VALUE` and the fields of a trace that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click

from tracejudge.store import TRACE_FIELDS, is_trace_field

_Command = TypeVar("_Command", bound=Callable[..., Any])
_STATUSES: Final = ("ok", "error", "incomplete")


def where_option(command: _Command) -> _Command:
    """`--where FIELD=VALUE`, which may be repeated."""
    return click.option(
        "--where",
        "also",
        multiple=True,
        metavar="FIELD=VALUE",
        help="Only traces with this field value. Repeatable; all must match.",
    )(command)


def trace_fields(asked: Iterable[str], *, beside: Iterable[str] = ()) -> dict[str, str]:
    """What was asked of fields of the trace, which are TRACE_FIELDS, tags, and those `beside` them.

    Raises BadParameter for a field that there is not, a status that there is not, and two values of one field: a trace
    has one, so the answer would be about none of them, or about one of the two in silence.
    """
    further = tuple(beside)
    found: dict[str, str] = {}
    for text in asked:
        name, separator, value = text.partition("=")
        if not separator or not (name in further or is_trace_field(name)):
            known = ", ".join(dict.fromkeys((*further, *TRACE_FIELDS)))
            own = f": write --{name} {value}" if separator and _has_option(name) else ""
            raise click.BadParameter(
                f"{text!r} is not FIELD=VALUE with {known} or tags.NAME{own}", param_hint="--where"
            )
        if name == "status" and value not in _STATUSES:
            raise click.BadParameter(f"status is {value!r}, which is not {', '.join(_STATUSES)}", param_hint="--where")
        check_one_value(name, found.get(name, value), value)
        found[name] = value
    return found


def check_one_value(name: str, first: str, second: str) -> None:
    """Raises BadParameter where a field is to have two values."""
    if first != second:
        raise click.BadParameter(
            f"{name} cannot be {first!r} and {second!r} at once: name one value, and run the command once per value",
            param_hint="--where",
        )


def _has_option(name: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and any(f"--{name}" in one.opts for one in context.command.params)
