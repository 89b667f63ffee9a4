"""Every command line in our pages and help texts is one that the program takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from tracejudge_consumer.cli import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for folder in ("", "producer_sdk", "src", "consumer", "deploy", "examples")
    for path in (ROOT / folder).glob("*" if not folder else "**/*")
    if path.suffix in (".md", ".yaml", ".yml", ".toml", ".py") and path.is_file()
)

# A line of code or of a page: what follows a comment sign, a closing quote or two spaces is no part of the command.
_LINE = re.compile(r"\btracejudge((?: [a-z][a-z-]+)+[^\n`#]*)")


def lines_of(text: str) -> Iterator[str]:
    for found in _LINE.finditer(text):
        yield found.group(1).split("  ")[0]


def faults(line: str) -> list[str]:
    """The options that the command of a line does not take; none for what is no command."""
    command: click.Command = cli
    context = click.Context(cli)
    for word in line.split():
        if not isinstance(command, click.Group):
            break
        found = command.get_command(context, word)
        if found is None:
            break
        command = found
    if command is cli:
        return []  # a sentence about the program
    taken = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    return [option for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", line) if option not in taken]


def test_a_wrong_option_is_seen() -> None:
    assert faults(" find --words refund") == ["--words"]
    assert faults(" judges list --json") == []


def test_every_documented_option_is_there() -> None:
    told = [(page, line) for page in PAGES for line in lines_of(page.read_text(encoding="utf-8"))]
    assert len(told) > 100
    wrong = [(page.relative_to(ROOT).as_posix(), line, fault) for page, line in told for fault in faults(line)]
    assert not wrong
