"""A report as one HTML file: no script, nothing loaded from anywhere, readable on paper.

The page forbids itself everything but its own styles (Content-Security-Policy), so that a text that got through every
other guard could still do nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tracejudge.pages.svg import clean

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE: Final = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif;
  --ink: #1c2733; --soft: #5b6875; --rule: #d5dce3; --thin: #e4e9ee; --paper: #fff; --line: #1f5fa8; --bar: #8fb3dc;
  --bad: #b3362b; --old: #8a96a3; color: var(--ink); background: var(--paper); }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --soft: #9aa7b5; --rule: #3a4654; --thin: #2b3643;
  --paper: #161c23; --line: #6aa9f0; --bar: #3d6698; --bad: #f0857a; --old: #7b8896; } }
body { max-width: 800px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; overflow-wrap: anywhere; }
p { overflow-wrap: anywhere; }
.sub, .none, footer { color: var(--soft); } footer { margin-top: 3rem; font-size: .85rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; }
.tile { border: 1px solid var(--rule); border-radius: 6px; padding: .6rem .9rem; min-width: 8.5rem; max-width: 15rem; }
.tile b { display: block; font-size: 1.25rem; } .tile small { color: var(--soft); overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; } th { text-align: left; color: var(--soft); }
th, td { border-bottom: 1px solid var(--thin); padding: .3rem .5rem; vertical-align: top; overflow-wrap: anywhere; }
td:not(.n):not(:last-child) { min-width: 5.5rem; }
td.n, th.n { text-align: right; white-space: nowrap; overflow-wrap: normal; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; border-left: 3px solid var(--rule); padding-left: .6rem; }
article { margin: 1rem 0; break-inside: avoid; } section { break-inside: auto; }
svg { width: 100%; height: auto; font-size: 11px; break-inside: avoid; } svg text { fill: var(--soft); }
.grid { stroke: var(--thin); } .line { fill: none; stroke: var(--line); stroke-width: 1.6; }
.band { fill: var(--line); opacity: .16; } .dot { fill: var(--line); } .bar { fill: var(--bar); }
.whisker { fill: none; stroke: var(--ink); stroke-width: 1.2; }
.old { fill: none; stroke: var(--old); stroke-width: 1.4; }
.olddot { fill: var(--old); } .mark { fill: none; stroke: var(--bad); stroke-width: 1.2; stroke-dasharray: 4 3; }
svg text.marked { fill: var(--bad); } .loss { fill: var(--bad); opacity: .75; } .axis { stroke: var(--soft); }
@media print { :root { color-scheme: light; --ink: #1c2733; --soft: #5b6875; --rule: #d5dce3; --thin: #e4e9ee;
  --paper: #fff; --line: #1f5fa8; --bar: #8fb3dc; --bad: #b3362b; --old: #8a96a3; }
  body { margin: 0; max-width: none; } h2, h3 { break-after: avoid; } a { color: inherit; } }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A number that is seen first."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what stands under it. `parts` are HTML made here or by `svg`, never texts as they came."""

    heading: str
    parts: tuple[str, ...]


def page(title: str, subtitle: str, *, tiles: Sequence[Tile], sections: Iterable[Section], footer: str) -> str:
    """The whole file."""
    shown = "".join(
        f'<div class="tile"><small>{clean(one.name)}</small><b>{clean(one.value)}</b>'
        f"<small>{clean(one.note)}</small></div>"
        for one in tiles
    )
    body = "".join(f"<section><h2>{clean(one.heading)}</h2>{''.join(one.parts)}</section>" for one in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{clean(title)}</title><style>{_STYLE}</style></head><body>"
        f'<header><h1>{clean(title)}</h1><p class="sub">{clean(subtitle)}</p></header>'
        f'<div class="tiles">{shown}</div>{body}<footer>{clean(footer)}</footer></body></html>\n'
    )


def table(columns: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> str:
    """Rows of texts under (heading, is a number) columns."""
    kinds = [' class="n"' if number else "" for _, number in columns]
    head = "".join(f"<th{kind}>{clean(name)}</th>" for kind, (name, _) in zip(kinds, columns, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}><bdi>{clean(cell)}</bdi></td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraph(text: str) -> str:
    """A paragraph of a sentence of ours or of a foreign text, which is escaped."""
    return f"<p>{clean(text)}</p>"


def heading(text: str) -> str:
    """A small heading within a section."""
    return f"<h3><bdi>{clean(text)}</bdi></h3>"


def quoted(name: str, text: str, *, limit: int = 1200) -> str:
    """A text from a trace under its name, lines kept."""
    return f'<p><b>{clean(name)}</b></p><div class="text"><bdi>{clean(text, limit=limit)}</bdi></div>'
