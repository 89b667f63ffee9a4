"""Where a consumer is measured: a log with real records, and a store whose engine runs in another process."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.store_process import StoreProcess
from tracejudge.store import Store, open_store
from tracejudge_sdk.codec import encode
from tracejudge_sdk.trace import Trace
from tracejudge_sdk.transports.sqlite_log import SqliteLog


@dataclass(frozen=True, kw_only=True)
class Place:
    """A log with the records, and an open store."""

    log: Path
    store: Store
    store_url: str
    traces: Sequence[Trace]


@contextmanager
def place(traces: Sequence[Trace]) -> Iterator[Place]:
    """A fresh log of the traces, and a fresh store in another process."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tracejudge-bench-")))
        log = SqliteLog(folder / "queue.db")
        for start in range(0, len(traces), 1_000):
            some = traces[start : start + 1_000]
            log.append([(trace.trace_id.encode(), encode(trace), (), 0) for trace in some])
        log.close()
        owner = stack.enter_context(StoreProcess(f"chdb:///{folder}/store"))
        owner.hear()
        owner.ask("migrate")
        url = f"chdb:///{folder}/store"
        store = stack.enter_context(open_store(url))
        yield Place(log=folder / "queue.db", store=store, store_url=url, traces=traces)
