"""LlamaIndex query engines over a little index, by import path: one answers from its passages, one makes things up."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from llama_index.core.query_engine import RetrieverQueryEngine

from tests.support.scripted_llm import KeywordRetriever, ScriptedLLM

WORDS = ("paris", "rome", "oslo", "lima", "kyoto", "cairo", "quito", "delhi", "turin", "porto")


def careful() -> RetrieverQueryEngine:
    """Repeats the first passage it was given."""
    return _engine(lambda prompt: [re.search(r"Passage \d on \w+\.", prompt)[0]])  # type: ignore[index]


def careless() -> RetrieverQueryEngine:
    """Says the same to everybody."""
    return _engine(lambda prompt: ["Elephants migrate across continents every winter."])


def _engine(script: Callable[[str], Sequence[str]]) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(KeywordRetriever(WORDS), llm=ScriptedLLM(script))
