"""Prompts are text files with `{variables}`; judged text enters them between markers nobody can forge.

A variable is `{query}`, `{response}`, `{context}` or `{reference}`; other braces stand for themselves, so a prompt may
show JSON. LlamaIndex's names are understood as its faithfulness judge means them: `{query_str}` is the statement under
test, which here is the response, and `{context_str}` the passages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final

_VARIABLE: Final = re.compile(r"\{([a-z_]+)\}")
_ALIASES: Final[Mapping[str, str]] = {"query_str": "response", "context_str": "context", "response_str": "response"}
_KNOWN: Final = frozenset({"query", "response", "context", "reference"})


class PromptError(ValueError):
    """A prompt text names a variable that does not exist, or lacks one that the judge needs."""


@cache
def read_prompt(name: str) -> str:
    """The text of the shipped prompt `name`."""
    return resources.files(__package__).joinpath(f"{name}.txt").read_text(encoding="utf-8").strip()


def variables(template: str) -> frozenset[str]:
    """The variables that `template` names, by their own names."""
    return frozenset(_ALIASES.get(name, name) for name in _VARIABLE.findall(template))


def check_template(template: str, *, required: Sequence[str]) -> None:
    """Raises PromptError unless `template` names all of `required` and nothing unknown."""
    named = variables(template)
    if unknown := sorted(named - _KNOWN):
        raise PromptError(
            f"unknown variable {{{unknown[0]}}}; known are {', '.join(f'{{{n}}}' for n in sorted(_KNOWN))}"
        )
    if missing := sorted(set(required) - named):
        raise PromptError(f"does not name {{{missing[0]}}}, which this judge needs")


def fill(template: str, values: Mapping[str, str]) -> str:
    """`template` with its variables replaced in one pass, so that braces inside a value mean nothing."""
    return _VARIABLE.sub(lambda match: values[_ALIASES.get(match[1], match[1])], template)
