"""Head sampling: which traces are logged at all, decided in the service's thread before anything is copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracejudge_sdk.sampling import HEAD_SALT, keep


@dataclass(frozen=True)
class HeadSampling:
    """The share of traces that is logged, 0 to 1, by the hash of the trace id."""

    probability: float = 1.0

    def decide(self, trace_id: str, fields: Mapping[str, Any]) -> float | None:
        """The chance with which this trace was kept, to be recorded in it; None when it is left out.

        `fields` are the keywords of `log()` as the service gave them: a rule that looks at them must take any type.
        """
        return self.probability if keep(trace_id, self.probability, HEAD_SALT) else None
