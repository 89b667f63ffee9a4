"""The SQLite log beside a plain list and a dict that say what it must answer."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tracejudge_sdk.errors import LeaseLost
from tracejudge_sdk.transports.sqlite_log import SqliteLog

groups = st.sampled_from(["a", "b"])
owners = st.sampled_from(["me", "you"])


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now_s = 1000.0
        self.log = self._open()
        self.values: list[bytes] = []
        self.begin = 0
        self.committed: dict[str, int | None] = {}
        self.holder: dict[str, tuple[str, float]] = {}

    def _open(self) -> SqliteLog:
        return SqliteLog(Path(self.folder.name) / "log.db", now=lambda: self.now_s)

    def teardown(self) -> None:
        self.log.close()
        self.folder.cleanup()

    @rule(values=st.lists(st.binary(max_size=6), max_size=4))
    def append(self, values: list[bytes]) -> None:
        start = len(self.values)
        assert self.log.append([(None, value, (), 0) for value in values]) == range(start, start + len(values))
        self.values += values

    @rule(start=st.integers(0, 20), most=st.integers(1, 5), max_bytes=st.integers(0, 12))
    def read(self, start: int, most: int, max_bytes: int) -> None:
        expected: list[tuple[int, bytes]] = []
        size = 0
        for offset in range(max(start, self.begin), len(self.values)):
            size += len(self.values[offset])
            if len(expected) == most or (expected and size > max_bytes):
                break
            expected.append((offset, self.values[offset]))
        found = self.log.read(from_offset=start, max_records=most, max_bytes=max_bytes)
        assert [(record.offset, record.value) for record in found] == expected

    @rule(group=groups, owner=owners)
    def acquire(self, group: str, owner: str) -> None:
        holder = self.holder.get(group)
        free = holder is None or holder[0] == owner or holder[1] <= self.now_s
        assert self.log.acquire(group, owner, 10) == free
        if free:
            self.holder[group] = (owner, self.now_s + 10)
            self.committed.setdefault(group, None)

    @rule(group=groups, owner=owners)
    def renew(self, group: str, owner: str) -> None:
        mine = group in self.holder and self.holder[group][0] == owner
        assert self.log.renew(group, owner, 10) == mine
        if mine:
            self.holder[group] = (owner, self.now_s + 10)

    @rule(group=groups, owner=owners)
    def release(self, group: str, owner: str) -> None:
        mine = group in self.holder and self.holder[group][0] == owner
        assert self.log.release(group, owner) == mine
        if mine:
            del self.holder[group]

    @rule(group=groups, owner=owners, share=st.floats(0, 1))
    def commit(self, group: str, owner: str, share: float) -> None:
        offset = int(share * len(self.values))
        if group in self.holder and self.holder[group][0] == owner:
            self.log.commit(group, offset, owner)
            self.committed[group] = offset
        else:
            with pytest.raises(LeaseLost):
                self.log.commit(group, offset, owner)

    @rule(offset=st.integers(0, 20))
    def delete(self, offset: int) -> None:
        end = min(offset, len(self.values))
        assert self.log.delete_before(offset) == max(0, end - self.begin)
        self.begin = max(self.begin, end)

    @rule(seconds=st.sampled_from([1.0, 9.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = self._open()

    @invariant()
    def the_account_is_right(self) -> None:
        assert (self.log.begin_offset(), self.log.end_offset()) == (self.begin, len(self.values))
        assert self.log.groups() == self.committed


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
