"""A consumer of a chaos run: the production wiring, whose intake writes down what it had in flight when it lost it.

    python -m tests.support.chaos.consumer SETTINGS.toml JOURNAL [--commit-before-store]

`--commit-before-store` plants a fault of ours: offsets are committed when records are handed out. A chaos run that
does not notice it proves nothing.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import click

from tracejudge_consumer import cli, wiring
from tracejudge_consumer.commands.consume import consumer_of, set_up_logging
from tracejudge_consumer.intake import Intake, PartitionKey, PartitionListener, RawRecord
from tracejudge_consumer.process.collector import settled_heap
from tracejudge_consumer.process.shutdown import stop_on_signals
from tracejudge_consumer.settings import Settings, load_settings


class WatchedIntake:
    """Passes everything on. Knows what was handed out and not committed, and says so when a partition goes away."""

    def __init__(self, inner: Intake, journal: Path, *, commit_before_store: bool) -> None:
        self._inner = inner
        self._journal = journal
        self._early = commit_before_store
        self._out: dict[PartitionKey, list[int]] = {}
        self._lock = threading.Lock()  # the listener is called on the client's own thread

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def listen(self, listener: PartitionListener) -> None:
        self._inner.listen(_Listener(listener, self))

    def poll(self, *, timeout_s: float, max_records: int) -> list[RawRecord]:
        records = self._inner.poll(timeout_s=timeout_s, max_records=max_records)
        with self._lock:
            for record in records:
                self._out.setdefault(record.partition_key, []).append(record.offset)
        if self._early and records:
            self._inner.commit(self._inner.positions())
        return records

    def commit(self, offsets: Mapping[PartitionKey, int]) -> bool:
        if self._early:
            return True
        accepted = self._inner.commit(offsets)
        if accepted:
            self.done(offsets)
        return accepted

    def done(self, offsets: Mapping[PartitionKey, int]) -> None:
        with self._lock:
            for key, end in offsets.items():
                self._out[key] = [offset for offset in self._out.get(key, []) if offset >= end]

    def gone(self, what: str, partitions: Collection[PartitionKey]) -> None:
        """These went away: what was handed out of them and is not committed was in flight."""
        with self._lock:
            in_flight = sum(len(self._out.pop(key, [])) for key in partitions)
        line = json.dumps({"event": what, "partitions": sorted(key.partition for key in partitions), "n": in_flight})
        with self._journal.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


class _Listener:
    def __init__(self, inner: PartitionListener, watched: WatchedIntake) -> None:
        self._inner = inner
        self._watched = watched

    def revoked(self, partitions: Collection[PartitionKey]) -> Mapping[PartitionKey, int]:
        offsets = self._inner.revoked(partitions)
        self._watched.done(offsets)
        self._watched.gone("revoked", partitions)
        return offsets

    def lost(self, partitions: Collection[PartitionKey]) -> None:
        self._inner.lost(partitions)
        self._watched.gone("lost", partitions)


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("journal", type=click.Path(path_type=Path))
@click.option("--commit-before-store", is_flag=True)
def main(config: Path, journal: Path, commit_before_store: bool) -> int:
    settings = load_settings(config)
    set_up_logging(settings)
    real = wiring.build_intake

    def watched(of: Settings, **more: Any) -> Intake:
        return cast(Intake, WatchedIntake(real(of, **more), journal, commit_before_store=commit_before_store))

    stop = threading.Event()
    with (
        patch.object(wiring.pipeline, "build_intake", watched),
        wiring.connect_store(settings, create=True, patience_s=wiring.CONSUMER_STORE_PATIENCE_S) as store,
        stop_on_signals(stop),
        consumer_of(settings, store, quiet=True) as pipeline,
        settled_heap(),
    ):
        pipeline.run(stop=stop)
    return 0


if __name__ == "__main__":
    # The command line's own exit statuses: 75 says that a service was away, and a supervisor starts it again.
    with patch.object(cli, "cli", main):
        sys.exit(cli.run(sys.argv[1:]))
