"""The points between the steps of the pipeline: a test kills the process there, or waits for it to come by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Stage = Literal["decoded", "traces_stored", "judged", "results_stored", "scores_stored", "committed"]
"""decoded, traces_stored and scores_stored (all of it is) are passed once per batch, judged and results_stored before
and after each insert of results, committed once per commit."""

Checkpoint = Callable[[Stage], None]
"""Called at every such point."""
