"""The texts of passages that were logged as ids only, asked of the user's own function.

The function gets a list of node ids and gives their texts, {id: text}; ids that it leaves out stay ids, and no judge
that reads passages is asked about a trace without any (not_applicable). When it raises OSError (ConnectionError and
TimeoutError are), its source is away and the records wait, as they do for the store. Anything else is its own fault:
the ids stay ids, counted and logged.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tracejudge.errors import ServiceUnavailable, SettingsError
from tracejudge_sdk.json_values import scrub_text
from tracejudge_sdk.trace import Trace

_LOG = logging.getLogger(__name__)

Hook = Callable[[Sequence[str]], Mapping[str, str | None]]
IDS_AT_ONCE: Final = 1_000


def load_hook(name: str) -> Hook:
    """The function that `package.module:function` names. Raises SettingsError."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute.isidentifier():
        raise SettingsError([f'intake.resolve_nodes: {name!r} is not "package.module:function"'])
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # importing runs somebody else's code
        raise SettingsError(
            [
                f"intake.resolve_nodes: {name!r} cannot be loaded ({type(error).__name__}: {error}); "
                "install it where the consumer runs, or put the folder it is in into PYTHONPATH"
            ]
        ) from error
    if not callable(found):
        raise SettingsError([f"intake.resolve_nodes: {name!r} is not a function"])
    hook: Hook = found
    return hook


class NodeResolver:
    """Fills in texts. Thread-safe where the hook is."""

    def __init__(self, hook: Hook, *, name: str, unresolved: Callable[[str, int], object] = lambda *_: None) -> None:
        """`unresolved` is called with the reason (`unknown`, `hook_failed`) and the number of nodes that stay without
        text."""
        self._hook = hook
        self._name = name
        self._unresolved = unresolved
        self._failing = False

    def filled(self, traces: Sequence[Trace]) -> list[Trace]:
        """The traces, with the texts that are known. Raises ServiceUnavailable when the texts' source is away."""
        wanted = list(dict.fromkeys(node_id for trace in traces for node_id in _bare_ids(trace)))
        if not wanted:
            return list(traces)
        texts: dict[str, str] = {}
        for start in range(0, len(wanted), IDS_AT_ONCE):
            texts.update(self._ask(wanted[start : start + IDS_AT_ONCE]))
        return [_with_texts(trace, texts) for trace in traces]

    def _ask(self, ids: Sequence[str]) -> dict[str, str]:
        try:
            found = self._hook(list(ids))
            texts = {node_id: scrub_text(text) for node_id in ids if isinstance(text := found.get(node_id), str)}
        except (OSError, ServiceUnavailable) as error:
            raise ServiceUnavailable(f"intake.resolve_nodes {self._name!r}: {type(error).__name__}: {error}") from error
        except Exception as error:  # noqa: BLE001 - somebody else's code: its mistake must not stop the consumer
            if not self._failing:
                _LOG.error("intake.resolve_nodes %r failed, passages stay without text: %r", self._name, error)
            self._failing = True
            self._unresolved("hook_failed", len(ids))
            return {}
        self._failing = False
        if len(texts) < len(ids):
            self._unresolved("unknown", len(ids) - len(texts))
        return texts


def _bare_ids(trace: Trace) -> list[str]:
    return [node.node_id for node in trace.source_nodes if node.text is None and node.node_id]


def _with_texts(trace: Trace, texts: Mapping[str, str]) -> Trace:
    if not any(node_id in texts for node_id in _bare_ids(trace)):
        return trace
    nodes: tuple[Any, ...] = tuple(
        node.model_copy(update={"text": texts.get(node.node_id)}) if node.text is None else node
        for node in trace.source_nodes
    )
    return trace.model_copy(update={"source_nodes": nodes})
