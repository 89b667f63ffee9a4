"""Cheap facts about a trace, computed before sampling: pure, bounded work, no model."""

from tracejudge.signals.facts import Signals, compute_signals, signals_of

__all__ = ["Signals", "compute_signals", "signals_of"]
