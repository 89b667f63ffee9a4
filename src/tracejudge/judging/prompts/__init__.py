"""Prompts are text files with `{variables}`; judged text enters them between markers nobody can forge.

Which variables a prompt may name is its kind's to say; other braces stand for themselves, so a prompt may show JSON.
LlamaIndex's names are understood as its own judge of that kind means them: for faithfulness `{query_str}` is the
statement under test, which here is the response, and `{context_str}` the passages.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib import resources
from typing import Final

_VARIABLE: Final = re.compile(r"\{([a-z_]+)\}")
_NO_ALIASES: Final[Mapping[str, str]] = {}


class PromptError(ValueError):
    """A prompt text names a variable that does not exist, or lacks one that the judge needs."""


@cache
def read_prompt(name: str) -> str:
    """The text of the shipped prompt `name`."""
    return resources.files(__package__).joinpath(f"{name}.txt").read_text(encoding="utf-8").strip()


def variables(template: str, aliases: Mapping[str, str] = _NO_ALIASES) -> frozenset[str]:
    """The variables that `template` names, by our names for them."""
    return frozenset(aliases.get(name, name) for name in _VARIABLE.findall(template))


def check_template(
    template: str, *, known: Collection[str], required: Collection[str], aliases: Mapping[str, str] = _NO_ALIASES
) -> None:
    """Raises PromptError unless `template` names all of `required` and nothing that is not `known`."""
    named = variables(template, aliases)
    if unknown := sorted(named - set(known)):
        raise PromptError(
            f"unknown variable {{{unknown[0]}}}; known are {', '.join(f'{{{n}}}' for n in sorted(known))}"
        )
    if missing := sorted(set(required) - named):
        raise PromptError(f"does not name {{{missing[0]}}}, which this judge needs")


def parts(template: str, aliases: Mapping[str, str] = _NO_ALIASES) -> tuple[str, ...]:
    """Texts of `template` and its variables, by our names for them, in turn."""
    split = _VARIABLE.split(template)
    split[1::2] = [aliases.get(name, name) for name in split[1::2]]
    return tuple(split)
