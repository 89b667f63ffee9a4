"""The smaller tables, leases and the schema: what each keeps, whatever is inserted twice."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from tracejudge.alerts.event import AlertEvent, SeriesKey
from tracejudge.errors import StoreError, StoreUnavailable
from tracejudge.scores import DeadLetter, JudgeId, Label, TraceKey
from tracejudge.store import (
    AlertSnapshot,
    Cursor,
    DeadLetterFilter,
    Lease,
    OutboxItem,
    RegisteredJudge,
    RunManifest,
    SamplingEpoch,
    Store,
    StoredFeedback,
    StoredPart,
    StoredTrace,
    UserAction,
    open_store,
)
from tracejudge.store.leases import Leases
from tracejudge.testing import make_trace
from tracejudge_sdk.trace import Feedback, TracePart

UTC = timezone.utc
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_a_dead_letter_is_kept_whole_and_once(contract_store: Store) -> None:
    letter = DeadLetter(
        source="kafka:traces",
        partition=3,
        offset=17,
        key=b"\xff\x00",
        value=b"\x00\xfe{not json",
        headers=(("trace", b"\x00\x01"), ("", b"")),
        reason="not_utf8",
        detail="record is not UTF-8 at byte 1",
        at=START,
    )
    contract_store.dead_letters.insert([letter, replace(letter, offset=18, key=None, value=b"")])
    contract_store.dead_letters.insert([replace(letter, at=START + SECOND)])
    contract_store.dead_letters.insert([replace(letter, value=b"other", reason="not_json", at=START + SECOND)])
    assert letter in contract_store.dead_letters.all()
    assert contract_store.dead_letters.counts() == {"not_json": 1, "not_utf8": 2}
    assert contract_store.dead_letters.counts(until=START) == {}
    assert len(contract_store.dead_letters.all(since=START, until=START + SECOND)) == 2


def test_what_was_done_about_a_dead_letter_stands_however_often_its_record_comes(contract_store: Store) -> None:
    letter = DeadLetter(
        source="kafka:traces", partition=3, offset=17, key=b"k", value=b"{", headers=(("h", b"1"),),
        reason="not_json", detail="no", at=START,
    )  # fmt: skip
    letters = contract_store.dead_letters
    letters.insert([letter, replace(letter, offset=18)])
    first, second = sorted(letters.find(DeadLetterFilter()), key=lambda row: row.letter.offset)
    letters.mark([first], "replayed", at=START + SECOND)
    letters.mark([second], "dropped", at=START + SECOND)
    letters.insert([letter, replace(letter, offset=18)])
    assert letters.find(DeadLetterFilter()) == []
    (replayed,) = letters.find(DeadLetterFilter(state="replayed", source="kafka:traces"))
    assert (replayed.letter, replayed.marked_at) == (letter, START + SECOND)
    (dropped,) = letters.find(DeadLetterFilter(state=None, letter_ids=(second.letter_id,)))
    assert dropped.letter == replace(letter, offset=18, key=None, value=b"", headers=())
    assert (dropped.state, dropped.value_hash) == ("dropped", first.value_hash)
    assert letters.counts() == {"not_json": 2}
    (count,) = letters.by_partition(START, START + SECOND)
    assert (count.hour, count.partition, count.count) == (START, 3, 2)


def test_the_share_of_dead_letters_is_known_by_the_minute(contract_store: Store) -> None:
    letter = DeadLetter(
        source="kafka:t", partition=0, offset=1, key=None, value=b"{", reason="not_json", detail="", at=START
    )
    later = START + timedelta(minutes=2)
    contract_store.dead_letters.insert([letter, replace(letter, offset=2, at=later), replace(letter, source="kafka:u")])
    contract_store.traces.insert(
        [StoredTrace(trace=make_trace(n), ingested_at=START if n < 3 else later, source="kafka:t") for n in range(10)]
    )
    assert contract_store.dead_letters.shares("kafka:t", START - SECOND) == [(4, 1), (8, 1)]
    assert contract_store.dead_letters.shares("kafka:t", START + SECOND) == [(8, 1)]
    contract_store.dead_letters.mark(contract_store.dead_letters.find(DeadLetterFilter()), "dropped", at=later)
    assert contract_store.dead_letters.shares("kafka:t", START - SECOND) == [(3, 0), (7, 0)]


def test_a_trace_that_came_again_counts_once_among_what_was_read(contract_store: Store) -> None:
    later = START + timedelta(minutes=2)
    for at in (START, later):
        contract_store.traces.insert(
            [StoredTrace(trace=make_trace(n), ingested_at=at, source="kafka:t") for n in range(10)]
        )
    assert contract_store.dead_letters.shares("kafka:t", START - SECOND) == [(10, 0)]
    assert contract_store.dead_letters.shares("kafka:t", START + SECOND) == []


def test_the_latest_label_of_a_source_stands(contract_store: Store) -> None:
    label = Label(
        environment="production", app="shop", trace_id="t", criterion="faithfulness", value=1.0, labelled_at=START
    )
    contract_store.labels.insert([label, replace(label, source="anna", value=0.5, note="partly")])
    contract_store.labels.insert([replace(label, value=0.0, labelled_at=START + SECOND), label])
    found = contract_store.labels.of_trace("t")
    assert [(one.source, one.value) for one in found] == [("", 0.0), ("anna", 0.5)]
    assert contract_store.labels.all(criterion="other") == []
    assert len(contract_store.labels.all()) == 2


def test_feedback_counts_once_for_each_id(contract_store: Store) -> None:
    said = Feedback(feedback_id="f", trace_id="t", app="shop", value=None, comment="", event_time=START)
    stored = StoredFeedback(feedback=said, ingested_at=START)
    contract_store.feedback.insert([stored, stored])
    contract_store.feedback.insert([replace(stored, ingested_at=START + SECOND)])
    assert contract_store.feedback.of_trace("t") == [stored]


def test_parts_wait_until_their_trace_is_stored(contract_store: Store) -> None:
    first = TracePart(trace_id="t", app="shop", event_time=START, query="q")
    last = first.model_copy(update={"query": None, "response": "r", "final": True})
    parts = [
        StoredPart(part=first, ingested_at=START, offset=1),
        StoredPart(part=last, ingested_at=START + SECOND, offset=2),
    ]
    contract_store.parts.insert(parts)
    contract_store.parts.insert(parts[1:])
    key = TraceKey("production", "shop", "t")
    assert contract_store.parts.of([key, TraceKey("production", "shop", "other")]) == {key: parts}
    assert contract_store.parts.of([]) == {}
    assert contract_store.parts.older_than(START) == []
    assert contract_store.parts.older_than(START + SECOND) == [key]
    trace = make_trace(0, trace_id="t")
    contract_store.traces.insert([StoredTrace(trace=trace, ingested_at=START)])
    assert contract_store.parts.older_than(START + SECOND) == []


def test_runs_judges_and_epochs(contract_store: Store) -> None:
    run = RunManifest(run_id="r", kind="replay", started_at=START, manifest={"judge": "x"})
    done = replace(run, finished_at=START + SECOND, manifest={"judge": "x", "scored": 5})
    contract_store.runs.save(done)
    contract_store.runs.save(run)
    assert contract_store.runs.get("r") == done
    assert contract_store.runs.get("none") is None
    assert contract_store.runs.all() == [done]

    judge = RegisteredJudge(
        judge_name="lexical", judge_id=JudgeId("lexical@1"), spec={"a": 1}, heuristic=True, registered_at=START
    )
    contract_store.judges.register([judge])
    contract_store.judges.register([replace(judge, registered_at=START + SECOND, spec={"a": 2})])
    assert contract_store.judges.all() == [judge]

    epoch = SamplingEpoch(epoch=1, starts_at=START, rates={"lexical": 0.5}, decided_at=START)
    contract_store.sampling_epochs.insert(epoch)
    contract_store.sampling_epochs.insert(replace(epoch, rates={"lexical": 1.0}, decided_at=START + SECOND))
    assert contract_store.sampling_epochs.all() == [epoch]


def test_alert_events_snapshots_actions_and_outbox(contract_store: Store) -> None:
    event = AlertEvent(
        event_id="e1",
        series=SeriesKey(
            rule="r", environment="production", app="shop", judge_name="j", judge_id="j@1", group=(("version", "v'1"),)
        ),
        kind="firing",
        severity="page",
        heuristic=True,
        at=START,
        summary="it fell",
        evidence={"n": 5, "rate": 0.25, "worst": ["t1", None]},
    )
    contract_store.alert_events.insert([event])
    contract_store.alert_events.insert([event, replace(event, event_id="e2", at=START + SECOND)])
    assert contract_store.alert_events.all()[1] == event
    assert [one.event_id for one in contract_store.alert_events.all(since=START + SECOND)] == ["e2"]
    assert contract_store.alert_events.get(["e1"]) == [event]

    snapshot = AlertSnapshot(
        name="r", cursor=Cursor(START, "t"), state={"R": [1.5]}, saved_at=START + 9 * SECOND, fencing=2
    )
    contract_store.alert_snapshots.save(snapshot)
    contract_store.alert_snapshots.save(replace(snapshot, fencing=1, saved_at=START + 99 * SECOND, state={"R": []}))
    assert contract_store.alert_snapshots.load("r") == snapshot
    contract_store.alert_snapshots.save(replace(snapshot, cursor=None, saved_at=START + 10 * SECOND))
    assert contract_store.alert_snapshots.load("r") == replace(snapshot, cursor=None, saved_at=START + 10 * SECOND)
    assert contract_store.alert_snapshots.load("none") is None

    action = UserAction(action_id="a", kind="silence", target={"rule": "r"}, start=START, end=None, at=START)
    contract_store.user_actions.insert([action, action])
    assert contract_store.user_actions.all() == [action]

    item = OutboxItem(event_id="e1", notifier="webhook", updated_at=START)
    contract_store.outbox.put([item, replace(item, notifier="terminal", updated_at=START + SECOND)])
    contract_store.outbox.put([replace(item, attempts=1, last_error="503", updated_at=START + SECOND)])
    assert [one.attempts for one in contract_store.outbox.pending()] == [0, 1]
    contract_store.outbox.put([replace(item, state="sent", attempts=2, updated_at=START + 2 * SECOND)])
    contract_store.outbox.put([replace(item, attempts=9, updated_at=START + 3 * SECOND)])
    assert [one.notifier for one in contract_store.outbox.pending()] == ["terminal"]


def test_a_lease_has_one_holder_and_a_growing_fencing_number(contract_store: Store) -> None:
    leases = contract_store.leases
    first = leases.acquire("leader", "a", 60)
    assert first is not None
    assert leases.acquire("leader", "b", 60) is None
    renewed = leases.renew(first, 120)
    assert renewed is not None
    assert (renewed.fencing, renewed.holder) == (first.fencing, "a")
    assert renewed.expires_at > first.expires_at
    assert leases.acquire("leader", "a", 60) is not None  # who holds it may ask again
    assert leases.acquire("other", "b", 60) is not None  # names do not touch each other
    leases.release(renewed)
    assert leases.current("leader") is None
    assert leases.renew(renewed, 60) is None
    second = leases.acquire("leader", "b", 60)
    assert second is not None
    assert second.fencing == first.fencing + 1
    leases.release(renewed)  # of somebody who no longer holds it: nothing happens
    assert leases.current("leader") == second


def test_a_lease_from_before_the_store_s_clock_was_set_back_is_free(contract_store: Store) -> None:
    """Its holder may be dead, and until that hour comes again nobody would lead."""
    contract_store.command(
        "INSERT INTO leases (name, fencing, claim_id, holder, released, ttl_ms, claimed_at) "
        "VALUES ('leader', 7, 'c', 'gone', false, 60000, now64(6) + INTERVAL 1 HOUR)"
    )
    taken = contract_store.leases.acquire("leader", "b", 60)
    assert taken is not None
    assert (taken.fencing, taken.holder) == (8, "b")


def test_a_lease_that_ran_out_goes_to_the_next(contract_store: Store) -> None:
    first = contract_store.leases.acquire("leader", "a", 60)
    assert first is not None
    contract_store.command("ALTER TABLE leases UPDATE ttl_ms = 0 WHERE 1 SETTINGS mutations_sync = 1")
    assert contract_store.leases.renew(first, 60) is None
    second = contract_store.leases.acquire("leader", "b", 60)
    assert second is not None
    assert second.fencing == first.fencing + 1


class _Gate:
    """Opens when each contender has claimed or given up: the pause that a lone claim waits for, made certain."""

    def __init__(self, contenders: int) -> None:
        self._still = contenders
        self._changed = threading.Condition()

    def arrive(self) -> None:
        with self._changed:
            self._still -= 1
            self._changed.notify_all()

    def settle(self) -> None:
        self.arrive()
        with self._changed:
            self._changed.wait_for(lambda: self._still == 0)


def test_of_claims_made_at_once_exactly_one_wins(contract_store: Store) -> None:
    contenders = 6
    together, gate = threading.Barrier(contenders), _Gate(contenders)
    won: list[Lease | None] = []

    def claim(holder: str) -> None:
        claimed = False

        def settle() -> None:
            nonlocal claimed
            claimed = True
            gate.settle()

        together.wait()
        won.append(Leases(contract_store._connection, settle=settle).acquire("leader", holder, 60))
        if not claimed:
            gate.arrive()

    threads = [threading.Thread(target=claim, args=(f"holder-{i}",)) for i in range(contenders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(lease is not None for lease in won) == 1


def test_a_server_that_is_not_there_is_said_to_be_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/"):
        open_store("clickhouse://u:secret@127.0.0.1:1/db", settle_timeout_s=0.1)


def test_a_closed_store_says_so(store_url: str) -> None:
    store = open_store(store_url)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.now()


@pytest.mark.parametrize("code", [75, 243])
def test_a_store_without_room_is_waited_for_and_the_message_says_what_it_lacks(store_url: str, code: int) -> None:
    with (
        open_store(store_url, settle_timeout_s=0.1) as store,
        pytest.raises(StoreUnavailable, match="make room on the disk of the store"),
    ):
        store.command(f"SELECT throwIf(1, 'full', toInt16({code})) SETTINGS allow_custom_error_code_in_throwif = 1")
