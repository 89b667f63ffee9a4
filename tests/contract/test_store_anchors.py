"""Sets of anchors are frozen: what was changed is seen, what was forgotten is gone, rounds are written over by more."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Literal

import pytest

from tracejudge.anchors import Anchor, AnchorRound, AnchorsChanged, AnchorSet, Verdict
from tracejudge.errors import NotFound, SettingsError
from tracejudge.scores import JudgeId
from tracejudge.store import Store
from tracejudge.testing import make_trace

AT = datetime(2026, 3, 1, tzinfo=timezone.utc)
JUDGE = JudgeId("faithfulness@000000000000")


def anchors(number: int, name: str = "golden") -> AnchorSet:
    chosen = [
        Anchor.of(make_trace(k, user_id=f"u{k}"), {"faithfulness": k % 2 == 0} if k % 3 else {}) for k in range(number)
    ]
    return AnchorSet.freeze(name, chosen, built_at=AT, origin={"from": "a test"})


def test_a_set_comes_back_as_it_was_frozen(store: Store) -> None:
    frozen = anchors(5)
    store.anchors.freeze(frozen)
    store.anchors.freeze(frozen)
    assert store.anchors.load("golden") == store.anchors.load(frozen.set_id) == frozen
    assert store.anchors.load("golden").anchors[0].trace.app == "shop"
    assert store.anchors.names() == [frozen.set_id]
    with pytest.raises(SettingsError, match="is frozen; choose another"):
        store.anchors.freeze(anchors(6))
    with pytest.raises(NotFound, match="golden@"):
        store.anchors.load("silver")


@pytest.mark.parametrize(
    "change",
    [
        "record = replaceOne(record, 'ten users', 'two users')",
        "expected = '{\"faithfulness\":true}'",
    ],
)
def test_an_anchor_that_was_changed_in_the_store_is_seen(store: Store, change: str) -> None:
    frozen = anchors(4)
    store.anchors.freeze(frozen)
    case = next(one.case_id for one in frozen.anchors if one.labels.get("faithfulness") is False)
    store.command(
        f"ALTER TABLE anchors UPDATE {change} WHERE case_id = {{case:String}} SETTINGS mutations_sync = 2",
        {"case": case},
    )
    with pytest.raises(AnchorsChanged, match=case):
        store.anchors.load("golden")


def test_an_anchor_that_was_added_in_the_store_is_seen(store: Store) -> None:
    frozen, other = anchors(3), anchors(4, "other")
    store.anchors.freeze(frozen)
    store.anchors.freeze(other)
    store.command(
        "INSERT INTO anchors (anchor_set, case_id, record, expected, added_at, row_version) "
        "SELECT {mine:String}, case_id, record, expected, added_at, row_version FROM anchors WHERE anchor_set = "
        "{other:String} AND case_id != ''",
        {"mine": frozen.set_id, "other": other.set_id},
    )
    with pytest.raises(AnchorsChanged, match="1 of 4 anchors were changed"):
        store.anchors.load("golden")


@pytest.mark.parametrize(("kind", "value"), [("trace", "t-000001"), ("user", "u1")])
def test_what_is_forgotten_is_no_anchor_any_more(store: Store, kind: Literal["trace", "user"], value: str) -> None:
    frozen = anchors(3)
    store.anchors.freeze(frozen)
    store.forgetting.forget(kind, value, at=AT)
    left = store.anchors.load("golden")
    assert (left.gone, len(left.anchors), left.set_id) == (1, 2, frozen.set_id)
    assert not store.query("SELECT 1 FROM anchors WHERE position(record, {value:String}) > 0", {"value": value})


def test_of_a_round_the_row_with_more_verdicts_stands_and_a_finished_one_before_all(store: Store) -> None:
    rounds = store.anchors.rounds
    begun = AnchorRound(
        set_id="golden@1", judge_name="faithfulness", judge_id=JUDGE, round_at=AT, cause="schedule",
        verdicts={"a": Verdict(True), "b": Verdict(None)},
    )  # fmt: skip
    done = replace(
        begun,
        verdicts={**begun.verdicts, "c": Verdict(False, True)},
        finished_at=AT + timedelta(minutes=3),
        heuristic=True,
    )
    rounds.save(begun)
    assert rounds.of("golden@1") == [begun]
    assert list(rounds.finished(after=None, until=AT + timedelta(days=1))) == []
    rounds.save(done)
    rounds.save(begun)
    later = replace(done, round_at=AT + timedelta(days=1), finished_at=AT + timedelta(days=1, minutes=1))
    rounds.save(later)
    assert rounds.of("golden@1", JUDGE) == [done, later]
    assert rounds.first("golden@1", JUDGE, limit=1) == [done]
    assert rounds.of("golden@1", since=AT + timedelta(hours=1)) == [later]
    assert list(rounds.finished(after=None, until=AT + timedelta(days=2))) == [done, later]
    assert list(rounds.finished(after=done.finished_at, until=AT + timedelta(days=2))) == [later]
