"""What many commands take on the command line: the settings file, --json, moments and spans of time."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from tracejudge.windows import floor_to

_Command = TypeVar("_Command", bound=Callable[..., Any])
DEFAULT_CONFIG: Final = "tracejudge.toml"
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")


_LONGEST_D: Final = 36_500
_YEARS: Final = range(1970, 2200)
"""Those whose instants the store keeps."""
_FIRST: Final = datetime(_YEARS.start, 1, 1, tzinfo=timezone.utc)


class NoSpan(ValueError):
    """A text that is no length of time."""


def parse_span(text: str) -> timedelta:
    """A length of time such as `90s`, `15m`, `24h`, `7d` or `2w`, at most a century. Raises ValueError, as NoSpan where
    it is none at all."""
    match = _SPAN.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise NoSpan(f"{text!r} is not a length of time such as 15m, 24h or 7d")
    seconds = float(match[1]) * _UNITS_S[match[2]]
    if seconds > _LONGEST_D * _UNITS_S["d"]:
        raise ValueError(f"{text!r} is longer than {_LONGEST_D}d, the maximum")
    return timedelta(seconds=seconds)


class Span(click.ParamType[timedelta]):
    """A length of time on the command line."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return parse_span(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Moment(click.ParamType[datetime]):
    """An instant on the command line: ISO 8601 with a zone, or a length of time that means so long ago."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        text = str(value)
        if len(text) == 11 and text.endswith("Z"):  # 2026-01-31Z: that day's beginning
            text = f"{text[:10]}T00:00:00Z"
        try:
            return max(_FIRST, datetime.now(timezone.utc) - parse_span(text))
        except NoSpan:
            pass  # it may still be an instant
        except ValueError as error:
            self.fail(str(error), param, ctx)
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            self.fail(
                f"{text!r} is neither a length of time such as 24h or 7d nor an instant such as 2026-01-31T12:00:00Z",
                param,
                ctx,
            )
        if moment.tzinfo is None:
            self.fail(f"{text!r} has no time zone: write {moment.isoformat()}Z for UTC", param, ctx)
        try:
            instant = moment.astimezone(timezone.utc)
        except OverflowError:
            instant = None
        if instant is None or instant.year not in _YEARS:
            self.fail(f"{text!r} is outside the years {_YEARS.start} to {_YEARS.stop - 1}", param, ctx)
        return instant


class Beginning(NamedTuple):
    """From when on. `ago`: said as a length of time before now, which may begin with a whole step before it; an instant
    is meant as it stands."""

    at: datetime
    ago: bool


class Since(click.ParamType[Beginning]):
    """A Moment from which windows are cut."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Beginning:
        if isinstance(value, Beginning):
            return value
        at = Moment().convert(value, param, ctx)
        try:
            parse_span(str(value))
        except NoSpan:
            return Beginning(at, ago=False)
        return Beginning(at, ago=True)


class Number(click.FloatRange):
    """A number within bounds; "nan" is none, and would be below and above no limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class OutFile(click.Path):
    """A file to write, refused before any work is done where it cannot be; `dash` allows "-" for stdout."""

    def __init__(self, *, dash: bool = False) -> None:
        super().__init__(dir_okay=False, allow_dash=dash)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = os.fsdecode(super().convert(value, param, ctx))
        if path == "-" and self.allow_dash:
            return path
        there, parent = Path(path), Path(path).absolute().parent
        if not parent.is_dir():
            self.fail(f"{path!r}: no such folder {str(parent)!r}: create it, or name another file", param, ctx)
        if not os.access(there if there.exists() else parent, os.W_OK):
            self.fail(f"{path!r} cannot be written by this user: name another file", param, ctx)
        return path


MOST_WINDOWS: Final = 100_000  # ten years by the hour, and some


def whole_steps(
    since: Beginning, until: datetime | None, *, last: datetime, step_s: float
) -> tuple[datetime, datetime]:
    """The time that is cut into windows. What was said as so long ago, and an end that was not said, go to whole steps
    since 1970, so that the same window shows the same traces in every call; instants stand. Without `until` the time
    holds the instant `last`."""
    start = floor_to(since.at, step_s=step_s) if since.ago else since.at
    return start, until or floor_to(last, step_s=step_s) + timedelta(seconds=step_s)


def check_windows(start: datetime, end: datetime, step_s: float) -> None:
    """Raises BadParameter for more windows than anybody reads: each is a row for every judge and slice."""
    if (windows := (end - start).total_seconds() / step_s) > MOST_WINDOWS:
        raise click.BadParameter(
            f"makes {windows:,.0f} windows, the limit is {MOST_WINDOWS:,}: use a longer step or a shorter time range",
            param_hint="--step",
        )


def check_order(since: datetime | None, until: datetime | None) -> None:
    """Raises BadParameter for a time that ends before it begins."""
    if since is not None and until is not None and until <= since:
        raise click.BadParameter("is not before --until", param_hint="--since")


def typed_last(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """What was typed, here or before the verb of a group: `alerts -c FILE show ID` is `alerts show ID -c FILE`."""
    key = f"{__name__}.{param.name}"  # a context and those of its verbs share `meta`
    if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
        ctx.meta[key] = value
    return ctx.meta.get(key, value)


def _config_option(*, exposed: bool) -> Callable[[_Command], _Command]:
    return click.option(
        "-c",
        "--config",
        "config",
        type=click.Path(dir_okay=False),
        envvar="TRACEJUDGE_CONFIG",
        default=DEFAULT_CONFIG,
        show_default=True,
        callback=typed_last,
        expose_value=exposed,
        help="Settings file.",
    )


def config_option(command: _Command) -> _Command:
    """`--config FILE`, from $TRACEJUDGE_CONFIG or ./tracejudge.toml; also typed before a group's verb."""
    return _config_option(exposed=True)(command)


def group_config_option(command: _Command) -> _Command:
    """`--config` for a group of verbs, which take the value that was typed before them."""
    return _config_option(exposed=False)(command)


def json_option(command: _Command) -> _Command:
    """`--json`: the same facts for a machine; also typed before a group's verb."""
    return click.option("--json", "as_json", is_flag=True, callback=typed_last, help="Print JSON instead of tables.")(
        command
    )


def exact_option(command: _Command) -> _Command:
    """`--exact/--by-minute`: how rates are read."""
    return click.option(
        "--exact/--by-minute",
        default=None,
        help="Read every row, or per-minute sums.  [default: exact up to 200 000 traces]",
    )(command)


def slice_options(command: _Command) -> _Command:
    """The fields by which traffic is told apart."""
    for option in (
        click.option("--version", "version", default=None, help="Only this release of the app."),
        click.option("--category", default=None, help="Only this category."),
        click.option("--app", default=None, help="Only this app."),
        click.option("--environment", default="production", show_default=True, help="Only this environment."),
    ):
        command = option(command)
    return command
