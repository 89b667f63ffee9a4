"""Rounds of anchors on their thread: only while this process leads, and a fault stops the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import pytest

from tracejudge.anchors import AnchorRound
from tracejudge.errors import CheckFailed, StoreUnavailable
from tracejudge_consumer.anchors.watch import AnchorWatch, watching_anchors


class Rounds:
    """Stands for the rounds: counts them, and does what it is told."""

    def __init__(self, *answers: BaseException | None) -> None:
        self.answers = list(answers)
        self.called = threading.Semaphore(0)
        self.wanted: list[bool] = []

    def run_due(self, *, still_wanted: Callable[[], bool]) -> list[AnchorRound]:
        self.wanted.append(still_wanted())
        self.called.release()
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return []


def test_rounds_are_made_while_this_process_leads_and_a_store_that_is_away_is_waited_for() -> None:
    rounds, stop = Rounds(StoreUnavailable("away")), threading.Event()
    with watching_anchors(cast("AnchorWatch", rounds), stop, leading=lambda: True, tick_s=0.001):
        for _ in range(3):
            assert rounds.called.acquire(timeout=30)
    assert not stop.is_set()
    assert all(rounds.wanted)


def test_what_stands_in_the_way_of_a_round_stops_no_alerts_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rounds, stop = Rounds(*3 * [CheckFailed("anchor 1: holds a feedback, which is no trace")]), threading.Event()
    with watching_anchors(cast("AnchorWatch", rounds), stop, leading=lambda: True, tick_s=0.001):
        for _ in range(5):
            assert rounds.called.acquire(timeout=30)
    assert not stop.is_set()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_nothing_is_made_while_another_process_leads() -> None:
    rounds, stop = Rounds(), threading.Event()
    asked = threading.Semaphore(0)

    def leading() -> bool:
        asked.release()
        return False

    with watching_anchors(cast("AnchorWatch", rounds), stop, leading=leading, tick_s=0.001):
        for _ in range(4):
            assert asked.acquire(timeout=30)
    assert rounds.wanted == []


def test_a_fault_stops_the_process_and_is_raised() -> None:
    stop = threading.Event()
    with (
        pytest.raises(ZeroDivisionError),
        watching_anchors(cast("AnchorWatch", Rounds(ZeroDivisionError())), stop, leading=lambda: True, tick_s=0.001),
    ):
        assert stop.wait(30)


def test_without_anchors_there_is_no_thread() -> None:
    before = threading.active_count()
    with watching_anchors(None, threading.Event(), leading=lambda: True, tick_s=1.0):
        assert threading.active_count() == before
