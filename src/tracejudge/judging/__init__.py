"""Judging: a trace and a JudgeSpec in, a Score or a reason why there is none out.

Specs, estimates and values load no LLM library; `Panel` and `evaluator_for` do, on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracejudge.judging.calls.cost import call_cost_usd
from tracejudge.judging.estimates import Estimate, check_caps, estimate
from tracejudge.judging.specs.caps import Caps
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.judging.tasks import (
    JudgeTask,
    NothingSpent,
    PanelResult,
    RunCaps,
    SpendSource,
    content_hash,
)

if TYPE_CHECKING:
    from tracejudge.judging.cache import VerdictCache
    from tracejudge.judging.panel import Panel
    from tracejudge.judging.registry import evaluator_for

__all__ = [
    "Caps",
    "Estimate",
    "JudgeSpec",
    "JudgeTask",
    "NothingSpent",
    "Panel",
    "PanelResult",
    "RunCaps",
    "SpendSource",
    "VerdictCache",
    "call_cost_usd",
    "check_caps",
    "content_hash",
    "estimate",
    "evaluator_for",
]


def __getattr__(name: str) -> Any:
    # LlamaIndex takes two seconds to import; whoever only reads specs must not wait for it.
    if name == "Panel":
        from tracejudge.judging.panel import Panel

        return Panel
    if name == "VerdictCache":
        from tracejudge.judging.cache import VerdictCache

        return VerdictCache
    if name == "evaluator_for":
        from tracejudge.judging.registry import evaluator_for

        return evaluator_for
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
