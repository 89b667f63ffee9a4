"""How things read in a terminal: numbers with intervals, hostile text made harmless, tables.

Everything here returns text or rich renderables; only commands print.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, ProgressColumn
from rich.text import Text

from tracejudge_consumer.terminal.fitting import FittedTable

_KEPT_CONTROLS = frozenset("\n\t")
_STEERS = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def console(*, stderr: bool = False) -> Console:
    """A console on stdout (or stderr) that does not treat text as markup and wraps nothing when piped."""
    stream = sys.stderr if stderr else sys.stdout
    seen = stream.isatty()
    width = None if seen else 160  # of tables; a line of text stays one line for what reads the pipe
    return _Console(file=stream, markup=False, highlight=False, emoji=False, width=width, soft_wrap=not seen)


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        # Texts of traces are made harmless where they are put into a sentence, which no checker can see to.
        super().print(*[harmless(one) if isinstance(one, str) else one for one in objects], **options)

    def on_broken_pipe(self) -> None:
        # `tracejudge compare A B | head` has seen enough, which is no failure: rich itself would end with status 1.
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise BrokenPipeError


def progress_bar(*columns: ProgressColumn, hidden: bool = False) -> Progress:
    """A progress bar on stderr that leaves no trace; nothing is drawn when hidden, or where nobody looks."""
    return Progress(*columns, console=console(stderr=True), transient=True, disable=hidden or not sys.stderr.isatty())


def harmless(text: str, *, limit: int | None = None) -> str:
    """Text from a trace, safe to print: no escape sequences, no bidirectional overrides, cut to `limit` characters."""
    kept = "".join(
        char if char in _KEPT_CONTROLS or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co") else "\ufffd"
        for char in text
    )
    if limit is not None and len(kept) > limit:
        kept = kept[: max(0, limit - 1)].rstrip() + "…"
    return kept


def slice_in_words(group: Iterable[tuple[str, str]]) -> str:
    """Which slice a series is of, safe to print: `category returns, tags.tenant acme`.

    >>> slice_in_words((("category", ""), ("version", "v2")))
    'category (none), version v2'
    """
    return ", ".join(f"{ident(name)} {ident(value) or '(none)'}" for name, value in group) or "–"


def one_line(text: str, *, limit: int = 100) -> str:
    """Harmless text on one line."""
    return harmless(" ".join(text.split()), limit=limit)


def ident(text: str) -> str:
    """An id or a name from a trace, whole and on one line: with line breaks in it, it could forge lines of ours."""
    return harmless(" ".join(text.split()))


def percent(value: float | None, *, digits: int = 1) -> str:
    """0.9512 as "95.1 %"; None as a dash, since no data is not zero."""
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def interval(low: float | None, high: float | None) -> str:
    """An interval of two shares in percent."""
    return "–" if low is None or high is None else f"{100 * low:.1f}–{100 * high:.1f}"


def money(value: float | None) -> str:
    """US dollars; None when no price is known."""
    if value is None:
        return "price unknown"
    return f"${value:.2f}" if value >= 1 or value == 0 else f"${value:.4f}"


def about(usd: float | None) -> str:
    """An estimate of money, or what to set so that there is one."""
    if usd is None:
        return "at unknown cost: set usd_per_million_input_tokens and usd_per_million_output_tokens of this judge"
    return f"about {money(usd)}"


def instant(value: datetime | None) -> str:
    """An instant to the second, UTC."""
    return "–" if value is None else value.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def bar(value: float | None, *, width: int = 20) -> str:
    """A share in [0, 1] as a bar."""
    if value is None:
        return ""
    eighths = round(max(0.0, min(1.0, value)) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def table(title: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str | Text]]) -> FittedTable:
    """A table with (heading, "left" | "right") columns."""
    return FittedTable(
        title=harmless(title),
        columns=[(harmless(heading), side == "right") for heading, side in columns],
        rows=[[cell if isinstance(cell, Text) else Text(harmless(cell)) for cell in row] for row in rows],
    )


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Any of our values as JSON text: instants in ISO 8601 UTC, enums by value, NaN refused.

    What would steer a terminal, or show a text in another order than it has, is written as its escape; so is half of a
    character, which no file takes.
    """
    return _STEERS.sub(_escaped, json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=indent))


_AS_THEY_ARE: Final = frozenset({str, int, float, bool, type(None)})


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _plain(value: Any) -> Any:
    if type(value) in _AS_THEY_ARE:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        # Not `asdict`: it copies all that is below, and a score costs three times as much.
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump(mode="json"))
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value


def _key(key: object) -> str:
    return str(key.value) if isinstance(key, Enum) else str(key)
