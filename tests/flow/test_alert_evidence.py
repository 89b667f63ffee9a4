"""From a fall in the store to what is said about it: the slice, the half, the worst, the record; and the page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Browser, find_browser
from tests.support.fallen import Traffic, fill
from tests.support.workplace import Workplace
from tracejudge.alerts import AlertEvent, MinimumRule, Rule
from tracejudge.alerts.telling.told import evidence_lines, evidence_link
from tracejudge.store import Store
from tracejudge.testing import ManualClock, RecordingNotifier
from tracejudge_consumer.alerting.evidence import NOT_YET, AlertEvidence, fall_of
from tracejudge_consumer.alerting.evidence_pages import EvidencePages
from tracejudge_consumer.alerting.loop import AlertLoop
from tracejudge_consumer.commands.alert_now import evidence_now
from tracejudge_consumer.settings import Settings
from tracejudge_consumer.terminal.exit_status import EXIT_USAGE

RULE = MinimumRule(name="faithfulness-minimum", judge="faithfulness", minimum=0.88)
CRITERIA = {"faithfulness": "faithfulness", "context_relevancy": "context_relevancy"}
HEALTHY = Traffic(rates={"billing": 0.97, "shipping": 0.97, "returns": 0.97})
FALLEN = Traffic(rates={"billing": 0.1, "shipping": 0.97, "returns": 0.97})
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "</bdi></td></table></svg><svg onload=\"document.title='owned'\"><style>*{display:none}</style>"
    "\u202egnp.exe <a href=\"javascript:alert(1)\">x</a> '\"> <meta http-equiv=refresh content='0;url=http://evil.test'>"
)


class World:
    """Nine hours of traffic, one trace a minute; the alert loop with its evidence."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.clock = ManualClock(store.now())
        self.start = store.now().replace(microsecond=0) - timedelta(hours=9)
        self.channel = RecordingNotifier()

    def fall(self, traffic: Traffic = FALLEN, **fields: Any) -> datetime:
        """Stores 400 healthy traces and a fall after them; gives the instant at which it began."""
        fill(self.store, start=self.start, periods=[(400, HEALTHY), (100, traffic)], **fields)
        return self.start + timedelta(minutes=400)

    def evidence(self, *, texts: bool = False, url: str | None = None, rules: Sequence[Rule] = ()) -> AlertEvidence:
        pages = EvidencePages(self.folder, url=url, keep=timedelta(days=30))
        return AlertEvidence(
            self.store, self.clock, criteria=CRITERIA, rules=rules, pages=pages, texts=texts, release="0"
        )

    def loop(self, evidence: AlertEvidence | None = None, **fields: Any) -> AlertLoop:
        options: dict[str, Any] = {
            "store": self.store,
            "rules": [RULE],
            "notifiers": [self.channel],
            "clock": self.clock,
            "holder": "one",
            "evidence": evidence if evidence is not None else self.evidence(),
        }
        return AlertLoop(**{**options, **fields})

    def alert(self, evidence: AlertEvidence | None = None) -> AlertEvent:
        (event,) = self.loop(evidence).tick()
        assert event.kind == "firing"
        return event


@pytest.fixture
def world(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    return World(store, tmp_path / "pages")


def part(event: AlertEvent, name: str) -> dict[str, Any]:
    found: Any = event.evidence[name]
    return dict(found)


def test_a_fall_in_one_category_is_told_with_its_slice_its_start_and_its_worst_traces(world: World) -> None:
    began = world.fall()
    explainer = world.evidence(url="https://alerts.example.com/t")
    event = world.alert(explainer)
    assert world.channel.events == world.store.alert_events.all() == [event]
    first = part(event, "slices")["standing_out"][0]
    assert (first["attribute"], first["value"], first["kind"]) == ("category", "billing", "within")
    assert first["high"] < 0.0
    assert first["since"]["rate"] < 0.5 < 0.85 < first["before"]["rate"]
    assert abs(datetime.fromisoformat(str(event.evidence["started_about"])) - began) < timedelta(minutes=20)
    (by_category,) = [one for one in part(event, "slices")["by"] if one["attribute"] == "category"]
    parts = by_category["within"]["value"] + by_category["mix"]["value"] + by_category["new_or_gone"]
    assert parts == pytest.approx(by_category["change"], abs=1e-9)
    assert part(event, "compared")["change"]["value"] == pytest.approx(by_category["change"], abs=1e-9)
    assert part(event, "slices")["too_many_values"] == ["tags.request"]
    assert part(event, "retrieval_or_generation")["verdict"] == "generation"

    worst: Any = event.evidence["worst"]
    assert len(worst) == 5
    assert [one["trace_id"] for one in worst] == event.evidence["worst_trace_ids"]
    traces = [world.store.traces.get(one["trace_id"])[0].trace for one in worst]
    assert {trace.category for trace in traces} == {"billing"}
    assert all(trace.event_time >= began - timedelta(minutes=20) for trace in traces)
    assert all("category billing" in one["why"] for one in worst)
    assert "limit of plan" not in json.dumps(dict(event.evidence)), "ids and numbers, no texts"

    lines = evidence_lines(event)
    assert lines[0].startswith("category billing fell from")
    assert any(line.startswith("worst traces: t-") for line in lines)
    assert any("not enough history to measure it" in line for line in lines)
    assert evidence_link(event) == f"https://alerts.example.com/t/{event.event_id}.html"
    page = (world.folder / f"{event.event_id}.html").read_text(encoding="utf-8")
    assert "category billing fell from" in page
    assert "limit of plan" not in page

    # What is judged later has no part in it.
    fill(world.store, start=world.start + timedelta(minutes=510), periods=[(25, HEALTHY)], seed=3, first=510)
    assert explainer.explained([event], still_open=frozenset({event.event_id})) == [event]


def test_a_release_that_holds_everything_since_the_fall_is_told_in_text_json_and_on_the_page(world: World) -> None:
    def released(number: int, fields: dict[str, Any]) -> None:
        fields["version"] = "v42<b>" if number >= 395 else "v41"

    world.fall(edit=released)
    event = world.alert(world.evidence())
    (one,) = part(event, "slices")["appeared"]
    assert (one["attribute"], one["value"]) == ("version", "v42<b>")
    assert datetime.fromisoformat(one["at"]) == world.start + timedelta(minutes=395)
    assert one["since"]["rate"] < one["before"]["rate"]
    assert evidence_lines(event)[0].startswith("version v42<b> appeared about ")
    page = (world.folder / f"{event.event_id}.html").read_text(encoding="utf-8")
    assert "version v42&lt;b&gt; appeared about " in page


def test_a_rule_by_a_tag_has_its_evidence_from_the_traces_of_that_tag(world: World) -> None:
    def only_acme_falls(number: int, fields: dict[str, Any]) -> None:
        fields["tags"] = {"tenant": "acme" if fields["category"] == "billing" else f"t{number % 2}"}

    world.fall(edit=only_acme_falls)
    rule = MinimumRule(name="by-tenant", judge="faithfulness", minimum=0.88, group_by=("tags.tenant",), max_series=2)
    explainer = world.evidence()
    events = world.loop(explainer, rules=[rule]).tick()
    (event,) = [event for event in events if event.kind == "firing"]
    assert event.series.group == (("tags.tenant", "acme"),)
    compared = part(event, "compared")
    assert compared["since"]["judged"] < 60, "of about 120 traces since then, those of acme alone"
    assert compared["since"]["rate"] < 0.3
    page = (world.folder / f"{event.event_id}.html").read_text(encoding="utf-8")
    assert "tags.tenant acme" in page
    first, *others = explainer.evidence(event).points
    assert (first.value, others[0].value is None) == (None, False), "no empty days before the first trace"
    # Of what is beyond the limit no trace can be told from others: told, without evidence.
    assert [event.series.group for event in events if event.kind == "more_values"] == [(("tags.tenant", "(other)"),)]


def test_the_series_of_all_further_values_is_told_without_evidence(world: World, store_url: str) -> None:
    world.fall()
    rule = MinimumRule(name="by-request", judge="faithfulness", minimum=0.88, group_by=("tags.request",), max_series=1)
    loop = world.loop(rules=[rule])
    more, fired = loop.tick()
    assert [more.kind, fired.kind] == ["more_values", "firing"]
    assert fired.series.group == (("tags.request", "(other)"),)
    assert {"slices", "gathered", "page"}.isdisjoint(fired.evidence), "nothing tells its traces from others"
    settings = Settings(queue="sqlite:///q.db", store=store_url, rules=(rule,))
    assert [one.state for one in loop.status()] == ["firing", "warming_up"]
    assert evidence_now(settings, world.store, loop.status()) == []


def test_of_many_alerts_pages_then_the_largest_are_explained_and_the_others_a_round_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracejudge_consumer.alerting.evidence.MOST_AT_ONCE", 2)
    world.fall(Traffic(rates=dict.fromkeys(HEALTHY.rates, 0.1)))
    common: dict[str, Any] = {"judge": "faithfulness", "heuristic_may_page": True}
    rules = [
        *(MinimumRule(name=f"ticket-{k}", minimum=0.88 - 0.02 * k, **common) for k in range(4)),
        MinimumRule(name="page", minimum=0.5, severity="page", page_drop=0.0, **common),
    ]
    evidence = world.evidence(url="https://alerts.example.com/t")
    loop = world.loop(evidence, rules=rules)
    told = {event.series.rule: event for event in loop.tick() if event.kind == "firing"}
    assert len(told) == 5
    sizes = {name: fall_of(event) for name, event in told.items() if name != "page"}
    largest = max(sizes, key=lambda name: sizes[name])
    with_it = {name for name, event in told.items() if "slices" in event.evidence}
    assert with_it == {"page", largest}
    late = [event for name, event in told.items() if name not in with_it]
    for event in late:
        assert event.evidence["gathered"] == NOT_YET
        assert NOT_YET in evidence_lines(event)
        assert evidence_link(event) == f"https://alerts.example.com/t/{event.event_id}.html"
        assert not (world.folder / f"{event.event_id}.html").exists()
    # Killed here: whoever goes on knows from the store what is left, and gives two a round.
    loop = world.loop(world.evidence(url="https://alerts.example.com/t"), rules=rules)
    pages = []
    for _ in range(3):
        loop.tick()
        pages.append(sum((world.folder / f"{event.event_id}.html").exists() for event in late))
    assert pages == [2, 3, 3]
    stored = {event.event_id: event for event in world.store.alert_events.all()}
    for event in late:
        assert "slices" in stored[event.event_id].evidence
        assert "gathered" not in stored[event.event_id].evidence
    assert len(stored) == 5, "under the same ids"
    assert len(world.channel.events) == 5, "nobody is told twice"


def test_evidence_that_fails_or_cannot_be_written_holds_no_notification_up(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.fall()
    world.folder.write_text("a file where the folder should be", encoding="utf-8")
    event = world.alert()
    assert [one.event_id for one in world.channel.events] == [event.event_id]
    assert evidence_link(event) is None
    assert "slices" in event.evidence
    assert "told without a page" in caplog.text

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tracejudge_consumer.alerting.evidence.gather", broken)
    (plain,) = world.evidence().explained([event], still_open=frozenset({event.event_id}))
    assert plain == event
    assert "told without evidence" in caplog.text


class Killed(BaseException):
    """The process ends here."""


def test_a_loop_killed_around_the_page_tells_the_same_once_it_is_back(world: World) -> None:
    world.fall()

    def die(step: str) -> None:
        if step == "explained":
            raise Killed

    with pytest.raises(Killed):
        world.loop(checkpoint=die).tick()
    assert world.channel.events == []
    (page,) = world.folder.glob("*.html")
    world.clock.advance(120)
    world.store.command("TRUNCATE TABLE leases")
    (event,) = world.loop(holder="two").tick()
    assert page.name == f"{event.event_id}.html"
    assert len(list(world.folder.iterdir())) == 1
    assert [one.event_id for one in world.channel.events] == [event.event_id]
    assert evidence_link(event) == page.as_uri()


def test_pages_go_when_their_time_is_over_or_a_trace_in_them_is_forgotten(world: World) -> None:
    world.fall()
    event = world.alert(world.evidence(texts=True))
    page = world.folder / f"{event.event_id}.html"
    (world.folder / "index.html").write_text("ours not", encoding="utf-8")
    other = world.folder / f"{'0' * 32}.html"  # of another store
    other.write_text("-", encoding="utf-8")
    pages = EvidencePages(world.folder, keep=timedelta(days=30))
    events = world.store.alert_events.get
    assert pages.sweep(now=world.clock.now(), events=events) == 0
    worst: Any = event.evidence["worst_trace_ids"]
    world.store.forgetting.forget("trace", worst[0], at=world.clock.now())
    assert pages.sweep(now=world.clock.now(), events=events) == 1
    assert not page.exists()
    assert other.exists()
    assert pages.sweep(now=world.clock.now() + timedelta(days=31), events=events) == 1
    assert [one.name for one in world.folder.iterdir()] == ["index.html"]


@pytest.fixture
def hostile(world: World) -> AlertEvent:
    """An alert about traces that are hostile in everything a trace says."""

    def nasty(number: int, fields: dict[str, Any]) -> None:
        fields |= {"query": HOSTILE, "response": HOSTILE, "model": HOSTILE[:60], "tags": {HOSTILE[:50]: HOSTILE[:40]}}
        if number >= 400:
            fields |= {"version": HOSTILE[:100], "trace_id": f"{number}{HOSTILE[:90]}"}
        fields["source_nodes"] = [{"node_id": HOSTILE[:40], "text": HOSTILE, "score": 0.5}]

    world.fall(Traffic(rates=dict.fromkeys(HEALTHY.rates, 0.3)), edit=nasty)
    return world.alert(world.evidence(texts=True))


def test_a_page_of_hostile_traces_runs_nothing_in_a_real_browser(
    world: World, hostile: AlertEvent, tmp_path: Path
) -> None:
    page = world.folder / f"{hostile.event_id}.html"
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text
    assert "default-src 'none'" in text
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium on this machine: install one to see the page in it")
    browser = Browser(path, tmp_path / "profile")
    dom, log = browser.dom(page)
    assert "<title>faithfulness of shop fell below 88 %" in dom
    assert "owned</title>" not in dom
    assert "CONSOLE" not in log
    for heading in ("What happened", "Where", "Retrieval or generation", "Read these first", "How far to trust it"):
        assert heading in dom
    picture = tmp_path / "page.png"
    browser.picture(page, picture)
    assert picture.stat().st_size > 20_000


def test_show_gives_the_same_on_a_terminal_as_json_and_as_a_page(
    world: World, store_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = (
        f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n[[judges]]\nname = "faithfulness"\nkind = "lexical"\n'
        '[[judges]]\nname = "context_relevancy"\nkind = "lexical"\nmeasures = "context_relevancy"\n'
    )
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    at = Workplace(tmp_path, capsys, settings)
    world.fall()
    event = world.alert()
    shown = at("alerts", "show", event.event_id, "--html", "alert.html")
    assert "category billing fell from" in shown
    assert "Read these first" in shown
    length = re.search(r"before +\S+ % \(.*\) in the (\d+ \w+) before the fall$", shown, re.M)
    assert length is not None
    assert re.search(r"since +\S+ % \(.*\) from the fall to the alert$", shown, re.M)
    compared = part(event, "compared")["says"]
    assert compared.startswith(f"before: the {length[1]} before the fall, from 20")
    assert compared in evidence_lines(event), "channels say what is compared as well"
    assert "By category" in shown
    told = at.json("alerts", "show", event.event_id)
    assert told["event_id"] == event.event_id
    assert told["evidence"]["slices"] == part(event, "slices")
    page = (tmp_path / "alert.html").read_text(encoding="utf-8")
    assert event.event_id in page
    assert "What is the limit" not in page
    at("alerts", "show", event.event_id, "--html", "alert.html", "--texts")
    assert "What is the limit" in (tmp_path / "alert.html").read_text(encoding="utf-8")
    assert "category billing fell from" in at("alerts")
    assert "no alert event 'nothing'" in at("alerts", "show", "nothing", expect=EXIT_USAGE)


def test_rows_of_1970_make_no_decades_of_watched_time(world: World) -> None:
    world.fall()
    fill(world.store, start=datetime(1970, 1, 21, tzinfo=timezone.utc), periods=[(4, HEALTHY)], first=9000)
    event = world.alert(world.evidence(rules=[RULE]))
    record = part(event, "false_alarms_measured")
    assert record["days"] < 1
    assert "not enough history to measure it: 0." in record["says"]


def test_a_rule_without_a_record_is_played_over_its_own_healthy_days(world: World) -> None:
    start = world.store.now().replace(microsecond=0) - timedelta(hours=60)
    broken = Traffic(rates=dict.fromkeys(HEALTHY.rates, 0.1))
    fill(world.store, start=start, periods=[(330, HEALTHY), (25, broken)], every_s=600.0)
    event = world.alert(world.evidence(rules=[RULE]))
    played = part(event, "false_alarms_resampled")
    assert 2.0 < played["history_days"] < 2.5
    assert (played["days"], played["promise_days"]) == (365, 30.0)
    assert played["low"] <= played["per_promise"] <= played["high"] <= 1.5
    assert evidence_lines(event)[-1] == played["says"]
    assert "simulated on its own healthy" in (world.folder / f"{event.event_id}.html").read_text(encoding="utf-8")
    volume = replace(event, evidence={**event.evidence, "type": "volume"})
    assert world.evidence().explained([volume], still_open=frozenset({event.event_id})) == [volume], "no pass rate fell"


def test_what_explain_says_of_an_open_alert_is_of_now_and_forget_takes_its_page_away(
    world: World, store_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = (
        f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n[alerts]\nevidence_dir = "pages"\n'
        '[[judges]]\nname = "faithfulness"\nkind = "lexical"\n'
        '[[rules]]\nname = "faithfulness-minimum"\njudge = "faithfulness"\nminimum = 0.88\n'
    )
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    at = Workplace(tmp_path, capsys, settings)
    world.fall()
    event = world.alert()
    (one,) = at.json("alerts", "explain")["series"]
    told = part(event, "compared")["since"]["judged"]
    assert one["evidence"]["compared"]["since"]["judged"] > told > 0
    assert one["evidence"]["slices"]["standing_out"][0]["value"] == "billing"
    explained = at("alerts", "explain")
    assert "category billing fell from" in explained
    assert re.search(r"% \(.*\) in the \d+ \w+ before, \S+ % \(.*\) since 20.* UTC, until now", explained)
    worst: Any = event.evidence["worst_trace_ids"]
    at("forget", "--trace-id", worst[0], "--yes")
    assert not list(world.folder.glob("*.html"))
