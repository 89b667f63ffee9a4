"""Named points between the steps of the pipeline, at which a test kills the process or waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Stage = Literal["decoded", "traces_stored", "judged", "results_stored", "scores_stored", "committed"]
"""decoded, traces_stored and scores_stored (everything of the batch is stored) are passed once per batch; judged and
results_stored before and after each insert of results; committed after each accepted commit."""

Checkpoint = Callable[[Stage], None]
"""Called at each of these points."""
