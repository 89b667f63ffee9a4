"""`tracejudge judges adopt`: live from a moment on, the old history untouched, baselines that need not warm up."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.workplace import Workplace
from tracejudge.alerts import Action, AlertEvent, DriftRule
from tracejudge.clock import SystemClock
from tracejudge.scores import JudgeId
from tracejudge.store import ScoreFilter, Store, StoredTrace, TraceFilter
from tracejudge.testing import make_score, make_trace
from tracejudge_consumer.alerting.adoption import seeds
from tracejudge_consumer.alerting.loop import AlertLoop
from tracejudge_consumer.commands.judges.adopt import adopt  # noqa: F401 - its absence fails here, not in a subprocess
from tracejudge_consumer.terminal.exit_status import EXIT_USAGE

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

HOURS = 200
OLD = JudgeId("lexical@000000000000")


@pytest.fixture
def at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store_url: str, store: Store
) -> Workplace:
    """Eight days of traffic, judged by an older lexical judge."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    settings = f"""\
queue = "sqlite:///queue.db"
store = "{store_url}"

[[judges]]
name = "lexical"
kind = "lexical"
"""
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    start = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS + 1)
    traces, scores = [], []
    for number in range(4 * HOURS):
        when = start + timedelta(minutes=15 * number)
        answer = "The limit of the plan is ten users." if number % 20 else "Whales sing in the arctic sea at night."
        traces.append(make_trace(number, event_time=when, response=answer))
        scores.append(make_score(number, event_time=when, judge_id=OLD, judged_at=when + timedelta(seconds=1)))
    store.traces.insert([StoredTrace(trace=trace, ingested_at=trace.event_time) for trace in traces])
    store.scores.insert(scores)
    return Workplace(tmp_path, capsys, settings)


def loop(store: Store, holder: str) -> AlertLoop:
    rules = [DriftRule(name="drift", type="drift", judge="lexical", no_data_after="never")]
    return AlertLoop(store=store, rules=rules, notifiers=[], clock=SystemClock(), holder=holder, settle_s=0.0)


def test_the_judge_of_a_run_becomes_live_and_its_rules_know_what_the_run_found(at: Workplace, store: Store) -> None:
    at("replay", "--judge", "lexical", "--run", "try-1")
    first = loop(store, "one")
    first.tick()
    told = at.json("judges", "adopt", "try-1", "--note", "reads better")
    new = told["judge_id"]
    assert told["before"] is None  # nobody had adopted the old one: no consumer ran here
    (adoption,) = store.judges.adoptions("lexical")
    assert (adoption.judge_id, adoption.note.endswith("reads better")) == (new, True)
    now = store.now()
    fresh = [
        make_score(9000 + n, judge_id=JudgeId(new), event_time=now, judged_at=now + timedelta(microseconds=n))
        for n in range(5)
    ]
    store.scores.insert(fresh)
    while store.now() <= fresh[-1].judged_at:
        pass
    first.tick()
    seen = {status.key.judge_id: status for status in first.status()}
    assert set(seen) == {OLD, new}
    baseline = seen[new].baseline
    assert baseline is not None
    assert abs(baseline - 0.95) < 0.02  # what the replay found, after five rows
    assert seen[new].smallest_drop is not None
    first.close()

    # Another loop that folds everything anew comes to the same.
    store.command("TRUNCATE TABLE alert_snapshots")
    again = loop(store, "two")
    again.tick()
    assert {s.key: (s.baseline, s.smallest_drop, s.phi) for s in again.status()} == {
        s.key: (s.baseline, s.smallest_drop, s.phi) for s in seen.values()
    }
    again.close()
    told_again = at("judges", "adopt", "try-1")
    assert "(heuristic) is already live and replaces no earlier judge of this name" in told_again
    assert "The old judge" not in told_again


def test_an_adopted_heuristic_says_what_it_is_before_its_first_row(at: Workplace, store: Store) -> None:
    at("replay", "--judge", "lexical", "--run", "try-1")
    first = loop(store, "one")
    first.tick()
    new = at.json("judges", "adopt", "try-1")["judge_id"]
    now = store.now()
    while store.now() <= now:
        pass
    first.tick()
    (seen,) = [status for status in first.status() if status.key.judge_id == new]
    assert seen.last_judged_at is None
    assert seen.heuristic
    first.close()
    again = loop(store, "two")  # and from its snapshot
    again.tick()
    assert [status.heuristic for status in again.status() if status.key.judge_id == new] == [True]
    again.close()


def test_the_old_history_stands_beside_the_new_one(at: Workplace, store: Store) -> None:
    from tracejudge.store import Adoption

    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    store.judges.adopt(Adoption(judge_name="lexical", judge_id=OLD, live_from=epoch))
    before = at.json("rates", "--since", "30d", "--step", "all")
    at("replay", "--judge", "lexical", "--run", "try-1")
    shown = at("judges", "adopt", "try-1")
    assert f"replacing {OLD}" in shown
    assert "(heuristic) is live from" in shown
    assert f"On {4 * HOURS} answers judged by both" in shown
    assert "the new one passes fewer of these answers than the old one" in shown.lower()
    after = at.json("rates", "--since", "30d", "--step", "all")
    assert [line["rate"] for line in after["lines"]] == [line["rate"] for line in before["lines"]]
    restated = at.json("rates", "--since", "30d", "--step", "all", "--run", "try-1")
    assert restated["lines"][0]["rate"]["judged"] == 4 * HOURS
    at("judges", "adopt", "try-1")  # again: nothing more happens
    assert "is ignored: the judge was already live" in at("judges", "adopt", "try-1", "--from", "2026-01-01T00:00:00Z")
    late = at("judges", "adopt", "try-1", "--from", "2199-01-01T00:00:00Z", expect=EXIT_USAGE)
    assert "is in the future" in late
    assert "omit --from" in " ".join(late.split())
    assert len(store.judges.adoptions("lexical")) == 2


def test_what_cannot_be_adopted_is_refused_with_the_way_out(at: Workplace, store: Store) -> None:
    assert "there is no run" in at("judges", "adopt", "nothing", expect=EXIT_USAGE)
    (at.folder / "other.toml").write_text('[[judges]]\nname = "lexical"\nkind = "lexical"\npass_at = 0.9\n')
    (at.folder / "named.toml").write_text('[[judges]]\nname = "stranger"\nkind = "lexical"\n')
    at("replay", "--judge", "named.toml", "--run", "stranger")
    assert "has no judge of this name" in at("judges", "adopt", "stranger", expect=EXIT_USAGE)
    assert store.judges.adoptions() == []
    assert store.user_actions.all() == []


def test_a_small_replay_bridges_what_the_old_judge_knows(at: Workplace, store: Store) -> None:
    """Eighty traces that both judge alike are enough: the new judge goes on from eight days of the old one."""
    like = JudgeId("lexical@333333333333")
    traces = [stored.trace for page in store.traces.stream(TraceFilter()) for stored in page]
    store.scores.insert(
        [
            make_score(
                number,
                passed=number % 20 > 0,
                event_time=trace.event_time,
                judge_id=like,
                judged_at=trace.event_time + timedelta(seconds=2),
            )
            for number, trace in enumerate(traces)
        ]
    )
    at("replay", "--judge", "lexical", "--run", "try-1", "--sample", "80")
    first = loop(store, "one")
    first.tick()
    new = at.json("judges", "adopt", "try-1")["judge_id"]
    (said,) = judge_live(store, first, new, rows=3)
    assert said.kind == "judge_changed"
    assert "drift continues from the old baseline, moved by +0.0 points" in said.summary
    assert "80 answers judged by both" in said.summary
    (status,) = [one for one in first.status() if one.key.judge_id == new]
    assert status.smallest_drop is not None
    first.close()


def test_a_judge_on_trial_bridges_by_what_it_said_of_live_traffic(at: Workplace, store: Store) -> None:
    """The trial ran under another name: what makes a judge is the hash in its JudgeId."""
    first = loop(store, "one")
    first.tick()
    start = store.now() - timedelta(hours=HOURS)
    trial = [
        make_score(
            number,
            passed=number % 10 > 0,
            event_time=score.event_time,
            judge_name="lexical-2",
            judge_id=JudgeId("lexical-2@222222222222"),
            run_id="shadow",
            judged_at=start + timedelta(seconds=number),
        )
        for page in store.scores.stream(ScoreFilter(judge=OLD))
        for number, score in enumerate(page)
        if number < 300
    ]
    store.scores.insert(trial)
    (said,) = judge_live(store, first, "lexical@222222222222", rows=3)
    assert "moved by -10.0 points" in said.summary
    assert "300 answers judged by both" in said.summary
    first.close()


def judge_live(store: Store, alert_loop: AlertLoop, judge_id: str, *, rows: int) -> list[AlertEvent]:
    """The first live verdicts of a judge, and what the alert loop says to them."""
    now = store.now()
    fresh = [
        make_score(9000 + n, judge_id=JudgeId(judge_id), event_time=now, judged_at=now + timedelta(microseconds=n))
        for n in range(rows)
    ]
    store.scores.insert(fresh)
    while store.now() <= fresh[-1].judged_at:
        pass
    return alert_loop.tick()


def test_a_row_of_no_observable_probability_bridges_nothing(store: Store) -> None:
    new = JudgeId("lexical@222222222222")
    at = store.now() - timedelta(hours=1)
    for number, chance in enumerate((1.0, 1.0, 1e-300)):
        common: dict[str, Any] = {"event_time": at, "judged_at": at, "inclusion_probability": chance}
        store.scores.insert([make_score(number, judge_id=OLD, **common), make_score(number, judge_id=new, **common)])
    key = make_score(0, judge_id=OLD)
    sums = store.pair_sums(
        old=OLD, new=new, environment=key.environment, app=key.app, group={}, before=at + timedelta(minutes=1)
    )
    assert (sums.n, sums.w, sums.w2) == (2, 2.0, 2.0)


def test_a_slice_by_a_tag_is_bridged_by_its_own_pairs_alone(store: Store) -> None:
    new = JudgeId("lexical@222222222222")
    at = store.now() - timedelta(hours=1)
    tenants = ("acme", "acme", "globex")
    traces = [make_trace(number, event_time=at, tags={"tenant": tenant}) for number, tenant in enumerate(tenants)]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=at) for trace in traces])
    for number in range(len(tenants)):
        common: dict[str, Any] = {"event_time": at, "judged_at": at}
        store.scores.insert([make_score(number, judge_id=OLD, **common), make_score(number, judge_id=new, **common)])
    key = make_score(0)
    sums = store.pair_sums(
        old=OLD,
        new=new,
        environment=key.environment,
        app=key.app,
        group={"tags.tenant": "acme"},
        before=at + timedelta(minutes=1),
    )
    assert sums.n == 2


def test_copies_of_an_answer_bridge_as_one(store: Store) -> None:
    new = JudgeId("lexical@222222222222")
    at = store.now() - timedelta(hours=1)
    for number in range(40):  # ten answers, one of them served 31 times and judged otherwise
        copied = number >= 9
        common: dict[str, Any] = {
            "event_time": at,
            "judged_at": at,
            "inclusion_probability": 0.5,
            "content_hash": f"{min(number, 9):032x}",
        }
        before = make_score(number, judge_id=OLD, **common)
        store.scores.insert([before, make_score(number, judge_id=new, passed=not copied, **common)])
    sums = store.pair_sums(
        old=OLD, new=new, environment=before.environment, app=before.app, group={}, before=at + timedelta(minutes=1)
    )
    assert (sums.n, sums.w, sums.wd, sums.w2) == (10, 80.0, -62.0, 9 * 4.0 + 62.0**2)


def test_a_run_over_chosen_traces_starts_no_baseline(at: Workplace, store: Store) -> None:
    """Forty-odd bad answers that somebody picked out say what the judge makes of bad answers, not of the traffic."""
    traces = [stored.trace for page in store.traces.stream(TraceFilter()) for stored in page]
    bad = [trace for trace in traces if "Whales" in (trace.response or "")]
    assert len(bad) == 4 * HOURS // 20
    (at.folder / "bad.jsonl").write_text("\n".join(trace.model_dump_json() for trace in bad) + "\n", encoding="utf-8")
    at("replay", "--judge", "lexical", "--run", "bad-ones", "--from", "bad.jsonl")
    first = loop(store, "one")
    first.tick()
    shown = " ".join(at("judges", "adopt", "bad-ones").split())
    assert "is of chosen traces only (--from)" in shown
    new = at.json("judges", "adopt", "bad-ones")
    assert new["narrowed_by"] == ["--from"]
    (said,) = judge_live(store, first, new["judge_id"], rows=3)
    assert "drift relearns its baseline" in said.summary
    (status,) = [one for one in first.status() if one.key.judge_id == new["judge_id"]]
    assert status.baseline is None or status.smallest_drop is None
    first.close()


def test_hours_of_a_replay_hold_copies_of_an_answer_as_one(at: Workplace, store: Store) -> None:
    asked = next(iter(store.traces.stream(TraceFilter())))[0]
    copies = [asked.trace.model_copy(update={"trace_id": f"copy-{number}"}) for number in range(5)]
    store.traces.insert([StoredTrace(trace=copy, ingested_at=asked.ingested_at) for copy in copies])
    at("replay", "--judge", "lexical", "--run", "try-1")
    at("judges", "adopt", "try-1")
    (stored,) = store.user_actions.all()
    action = Action(
        action_id=stored.action_id,
        at=stored.at,
        verb="adopt",
        matchers={name: str(value) for name, value in stored.target.items()},
        start=stored.start,
    )
    (seed,) = seeds(store, [DriftRule(name="drift", type="drift", judge="lexical")], action).values()
    traces = [stored.trace for page in store.traces.stream(TraceFilter()) for stored in page]
    served = Counter((int(one.event_time.timestamp()) // 3600, one.query, one.response) for one in traces)
    assert max(served.values()) == 6
    assert sum(hour.w for hour in seed.hours) == len(traces)
    assert sum(hour.w2 for hour in seed.hours) == sum(times**2 for times in served.values())
