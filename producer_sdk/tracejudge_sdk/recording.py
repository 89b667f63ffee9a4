"""A trace that is logged when a block of code ends, with its duration and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tracejudge_sdk.fields import error_text, wire_id


class TraceRecording:
    """What `with client.trace(...) as t:` gives: assign `t.response`, `t.source_nodes` or any other field of `log()`.

    The block's own exception passes through unchanged; the trace then says error, or incomplete where the block was
    cancelled or its generator closed. Nothing here raises.
    """

    def __init__(self, log: Callable[[dict[str, Any]], str], fields: dict[str, Any]) -> None:
        fields["trace_id"] = wire_id(fields.get("trace_id"))
        # Into __dict__, because assignment to an attribute sets a field.
        self.__dict__.update(_log=log, _fields=fields, _started=time.perf_counter())

    @property
    def trace_id(self) -> str:
        """The id the trace is logged under, known before it is logged."""
        return str(self._fields["trace_id"])

    def set(self, **fields: Any) -> None:
        """Sets several fields at once."""
        self._fields.update(fields)

    def __setattr__(self, name: str, value: Any) -> None:
        self._fields[name] = value

    def __getattr__(self, name: str) -> Any:
        # Only called for what is no attribute: a field that was set, or None.
        return self.__dict__.get("_fields", {}).get(name)

    def __enter__(self) -> TraceRecording:
        self.__dict__["_started"] = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        fields = dict(self._fields)
        fields.setdefault("latency_ms", (time.perf_counter() - self._started) * 1000)
        if error is not None:
            # Cancelled tasks, closed generators and the end of the process are no Exception.
            fields.setdefault("status", "error" if isinstance(error, Exception) else "incomplete")
            fields.setdefault("error", error_text(error))
        self._log(fields)
