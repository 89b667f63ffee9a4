"""`tracejudge report`: whole in one file, harmless whatever the traces say, the same in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.browser import Browser, find_browser
from tests.support.workplace import Workplace
from tracejudge.alerts import AlertEvent, SeriesKey
from tracejudge.alerts.judges.hold_mark import hold_says, with_hold
from tracejudge.scores import JudgeId
from tracejudge.store import Store, StoredTrace
from tracejudge.testing import make_score, make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_USAGE

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "</td></table><svg onload=\"document.title='owned'\"><style>*{display:none}</style>"
    "\u202egnp.exe <a href=\"javascript:alert(1)\">x</a> '\"> <meta http-equiv=refresh content='0;url=http://evil.test'>"
)
RUNS = ("live", "try-1")
WINDOW = ("--since", "2026-01-01T00:00:00Z", "--until", "2026-01-08T00:00:00Z")


@pytest.fixture
def at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store_url: str, store: Store
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    settings = f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n'
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    traces, scores = [], []
    for n in range(300):
        when = START + timedelta(minutes=20 * n)
        version = HOSTILE[:100] if n % 2 else "v1"
        traces.append(
            make_trace(n, event_time=when, query=HOSTILE, response=HOSTILE, version=version, category=HOSTILE[:80])
        )
        for run_id, passed in (("live", n % 10 != 0), ("try-1", n % 5 != 0)):
            scores.append(
                make_score(
                    n, event_time=when, judged_at=when + timedelta(minutes=1), passed=passed, run_id=run_id,
                    version=version, category=HOSTILE[:80], feedback=HOSTILE, flags=("heuristic",),
                    judge_id=JudgeId("lexical@000000000000" if run_id == "live" else "lexical@111111111111"),
                )
            )  # fmt: skip
    store.traces.insert([StoredTrace(trace=trace, ingested_at=trace.event_time) for trace in traces])
    store.scores.insert(scores)
    return Workplace(tmp_path, capsys, settings)


class Tags(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def tags(text: str) -> Tags:
    parser = Tags()
    parser.feed(text)
    return parser


def test_rates_and_a_report_are_of_the_time_that_was_asked_for_and_of_no_more(at: Workplace) -> None:
    """Traces come every 20 minutes; from 05:30 to 05:30 there are 72, and what was served at 05:20 is none of them."""
    day = ("--since", "2026-01-02T05:30:00Z", "--until", "2026-01-03T07:30:00+02:00")
    assert [line["rate"]["judged"] for line in at.json("report", *day)["lines"]] == [72]
    assert "2026-01-02 05:30" in at("report", *day)
    for step, judged in (("all", [72]), ("1d", [72]), ("10h", [30, 30, 12])):
        lines = at.json("rates", *day, "--step", step)["lines"]
        assert [line["rate"]["judged"] for line in lines] == judged
    assert lines[0]["window"]["start"] == "2026-01-02T05:30:00.000Z"
    for verb in ("rates", "report"):
        at(verb, "--since", "2199-01-01T00:00:00Z", expect=EXIT_USAGE)


def test_a_report_gives_the_interval_of_rates_where_answers_repeat(at: Workplace, store: Store) -> None:
    again = [
        make_score(1000 + n, event_time=START, passed=n < 40, flags=("heuristic",), judge_id=JudgeId("copies@0"))
        for n in range(60)
    ]
    store.scores.insert(
        [replace(score, judge_name="copies", content_hash=f"{n // 20:064x}") for n, score in enumerate(again)]
    )
    (line,) = at.json("rates", *WINDOW, "--step", "all", "--judge", "copies")["lines"]
    assert line["rate"]["n_eff"] < 10 < line["rate"]["judged"]
    low, high = (f"{100 * line['rate'][end]:.1f}" for end in ("low", "high"))
    assert f"{low}–{high}" in at("report", *WINDOW, "--judge", "copies")


def test_a_report_holds_nothing_that_runs_or_loads_whatever_the_traces_say(at: Workplace) -> None:
    at("report", *WINDOW, "--texts", "--title", HOSTILE, "--html", "r.html")
    text = (at.folder / "r.html").read_text(encoding="utf-8")
    found = tags(text).found
    names = {tag for tag, _ in found}
    assert not names & {"script", "img", "iframe", "object", "embed", "link", "a", "form", "base"}
    assert sum(tag == "style" for tag, _ in found) == 1
    assert sum(tag == "meta" and "http-equiv" in attributes for tag, attributes in found) == 1
    assert not [attributes for _, attributes in found if any(name.startswith("on") for name in attributes)]
    assert not [1 for _, attributes in found for name in attributes if name in ("src", "href", "srcset", "style")]
    assert "default-src 'none'" in text
    assert "\u202e" not in text
    assert "url(" not in text
    assert "&lt;script&gt;" in text  # said, and harmless


def test_texts_are_left_out_unless_asked_for(at: Workplace) -> None:
    at("report", *WINDOW, "--html", "r.html")
    text = (at.folder / "r.html").read_text(encoding="utf-8")
    assert "evil.test" not in text
    assert "t-000290" in text  # of equally bad ones the newest first
    assert "lexical (heuristic)" in text


def test_a_heuristic_is_called_one_wherever_it_stands(at: Workplace) -> None:
    at("report", *WINDOW, "--html", "r.html")
    headings = re.findall(r"<h2[^>]*>([^<]*lexical[^<]*)</h2>", (at.folder / "r.html").read_text(encoding="utf-8"))
    assert any("Worst answers by lexical" in heading for heading in headings)
    assert all("(heuristic)" in heading for heading in headings), headings


def test_a_slice_of_few_answers_has_no_bar_and_says_so(at: Workplace, store: Store) -> None:
    few = [make_score(2000 + n, event_time=START, passed=True, app="small", flags=("heuristic",)) for n in range(2)]
    store.scores.insert(few)
    at("report", *WINDOW, "--html", "r.html")
    text = (at.folder / "r.html").read_text(encoding="utf-8")
    section = text[text.index("By app") :]
    section = section[: section.index("</section>")]
    assert section.count('class="bar"') == 1
    assert section.count('class="whisker"') == 2
    assert ">few<" in section
    assert "not enough data for a rate" in section
    assert "100.0 %" not in section


def test_what_was_not_judged_is_of_the_app_and_environment_that_the_report_is_of(at: Workplace, store: Store) -> None:
    elsewhere = [make_trace(3000 + n, event_time=START, app="help") for n in range(7)]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=START) for trace in elsewhere])

    def section(*args: str) -> str:
        at("report", *WINDOW, "--html", "r.html", *args)
        text = (at.folder / "r.html").read_text(encoding="utf-8")
        found = text[text.index("Every trace accounted for") :]
        return found[: found.index("</section>")]

    assert "app shop in production<" in section("--app", "shop")
    assert ">300<" in section("--app", "shop")
    assert "all apps in production<" in section()
    assert ">307<" in section()
    assert "app shop in production, whatever the version<" in section("--app", "shop", "--version", "v1")


def test_the_figures_are_those_of_rates(at: Workplace) -> None:
    told = at.json("report", *WINDOW, "--html", "r.html")
    rates = at.json("rates", *WINDOW, "--step", "all")
    assert told["lines"][0]["rate"] == rates["lines"][0]["rate"]
    text = (at.folder / "r.html").read_text(encoding="utf-8")
    assert f"{100 * rates['lines'][0]['rate']['estimate']:.1f} %" in text
    assert len(re.findall(r'class="dot"', text)) >= 2
    assert "300" in at("report", *WINDOW)


def test_a_run_beside_another(at: Workplace) -> None:
    at("report", "--run", "try-1", "--against", "live:lexical", "--html", "r.html")
    text = (at.folder / "r.html").read_text(encoding="utf-8")
    assert "live:lexical (heuristic) and try-1:lexical (heuristic)" in text
    assert "passes fewer of these answers than live:lexical (heuristic)" in text
    assert "there is no run 'nothing'" in at("report", "--run", "nothing", expect=EXIT_USAGE)


def test_alerts_are_those_of_the_report_s_own_traffic_and_those_about_everybody(at: Workplace, store: Store) -> None:
    def event(name: str, environment: str, app: str) -> AlertEvent:
        series = SeriesKey(rule="r", environment=environment, app=app, judge_name="lexical", judge_id="lexical@0")
        return AlertEvent(
            event_id=name, series=series, kind="firing", severity="page", heuristic=True,
            at=START + timedelta(hours=1), summary=f"summary of {name}", evidence={},
        )  # fmt: skip

    app = make_trace(0).app
    told = (("mine", "production", app), ("judge", "", ""), ("other", "production", "other"), ("test", "staging", app))
    store.alert_events.insert([event(*one) for one in told])
    at("report", *WINDOW, "--app", app, "--html", "r.html")
    text = (at.folder / "r.html").read_text(encoding="utf-8")
    assert set(re.findall(r"summary of (\w+)", text)) == {"mine", "judge"}


def test_an_alert_that_is_held_back_is_said_to_be_until_it_is_over(at: Workplace, store: Store) -> None:
    app = make_trace(0).app
    series = SeriesKey(rule="r", environment="production", app=app, judge_name="lexical", judge_id="lexical@0")
    alert = AlertEvent(
        event_id="held", series=series, kind="firing", severity="page", heuristic=True,
        at=START + timedelta(hours=1), summary="it fell", evidence={},
    )  # fmt: skip
    alert = with_hold(alert, because="judge_moved", until=START + timedelta(days=3))
    store.alert_events.insert([alert])
    at("report", *WINDOW, "--app", app, "--html", "r.html")
    assert f"it fell; {hold_says(alert)}" in (at.folder / "r.html").read_text(encoding="utf-8")
    later = START + timedelta(hours=2)
    end = replace(alert, event_id="end", kind="resolved", at=later, evidence={"fired_event_id": "held", "held": True})
    store.alert_events.insert([end])
    at("report", *WINDOW, "--app", app, "--html", "r.html")
    assert "it fell; not sent: it resolved" in (at.folder / "r.html").read_text(encoding="utf-8")


def test_a_judge_that_was_replaced_has_its_worst_answers_by_each_judge_id(at: Workplace, store: Store) -> None:
    later = START + timedelta(minutes=1)
    for n, judge_id in ((1, "lexical@000000000000"), (2, "lexical@222222222222")):
        trace = make_trace(1_000 + n, event_time=later)
        store.traces.insert([StoredTrace(trace=trace, ingested_at=later)])
        score = make_score(
            1_000 + n, event_time=later, judged_at=later, passed=False, run_id="two", judge_id=JudgeId(judge_id)
        )
        store.scores.insert([score])
    at("report", "--run", "two", "--html", "r.html")
    text = (at.folder / "r.html").read_text(encoding="utf-8")
    for judge_id in ("lexical@000000000000", "lexical@222222222222"):
        section = text[text.index(f"Worst answers by {judge_id}") :]
        section = section[: section.index("</section>")]
        assert section.count("t-0010") == 1, "an answer of the other judge"


def test_a_report_from_sums_by_the_minute_says_so_and_what_that_means(
    at: Workplace, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    means = "Where answers repeat, the intervals are narrower than they should be."
    assert at.json("report", *WINDOW, "--html", "r.html")["exact"] is True
    assert means not in (at.folder / "r.html").read_text(encoding="utf-8") + at("report", *WINDOW)
    monkeypatch.setattr("tracejudge.reports.rates.MOST_TRACES_READ", 299)
    store.minutes.rollup()
    assert at.json("report", *WINDOW, "--html", "r.html")["exact"] is False
    text = (at.folder / "r.html").read_text(encoding="utf-8")
    assert means in text
    assert "`tracejudge report --exact`" in text
    assert "--exact reads every row" in " ".join(at("report", *WINDOW).split())
    assert at.json("report", *WINDOW, "--exact", "--html", "r.html")["exact"] is True
    assert means not in (at.folder / "r.html").read_text(encoding="utf-8")
    canary = at.json("compare", "v1", HOSTILE[:100], "--by", "version")
    assert canary["exact"] is False


def test_a_comparison_says_that_a_side_mixes_two_judges(at: Workplace, store: Store) -> None:
    other = [make_score(n, event_time=START + timedelta(minutes=20 * n), run_id="try-1") for n in range(300, 305)]
    store.scores.insert([replace(one, run_id=run, judge_id=JudgeId("lexical@5")) for one in other for run in RUNS])
    (mixed, *_) = at.json("compare", "live:lexical", "try-1:lexical")["in_words"]
    assert mixed.startswith("The verdicts of A come from several judges of one name, lexical@000000000000 and ")


def test_two_judges_of_one_name_are_told_apart_in_every_view(at: Workplace, store: Store) -> None:
    later = START + timedelta(minutes=1)
    ids = [JudgeId(f"lexical@{digit * 12}") for digit in "05"]
    for number, judge_id in enumerate(ids):
        for version in ("v1", "v2"):
            scores = [
                make_score(
                    3_000 + 100 * number + n, event_time=later + timedelta(hours=n % 2), judged_at=later,
                    trace_id=f"{version}-{number}-{n}", passed=n % 3 > 0, judge_id=judge_id, version=version,
                    app="changed",
                )
                for n in range(30)
            ]  # fmt: skip
            store.scores.insert(scores)
    only = ("--app", "changed", *WINDOW)
    facts = at("rates", *only, "--step", "1h", "--facts")
    for title in ("Pass rates", "Judging", "Change from the previous window"):
        table = facts[facts.index(title) :].split("\n\n")[0]
        assert all(judge_id in table for judge_id in ids), title
    for command in (
        ("worst", *only, "-n", "30"),
        ("compare", "v1", "v2", "--by", "version", "--app", "changed"),
        ("release", "check", "v2", "--against", "v1", *only),
    ):
        at.capsys.readouterr()
        run([*command])  # whatever the verdict is, it says by which judge
        shown = at.capsys.readouterr().out
        assert all(judge_id in shown for judge_id in ids), command


@pytest.mark.skipif(find_browser() is None, reason="no Chromium on this machine: apt-get install chromium")
def test_a_real_browser_shows_it_and_nothing_of_it_ran(at: Workplace) -> None:
    at("report", *WINDOW, "--texts", "--html", "r.html")
    page = at.folder / "r.html"
    path = find_browser()
    assert path is not None
    browser = Browser(path, at.folder / "profile")
    dom, log = browser.dom(page)
    (title,) = re.findall(r"<title>(.*?)</title>", dom)[:1]
    assert title == "Quality of answers, run live"  # what a text wanted it to be is "owned"
    names = {tag for tag, _ in tags(dom).found}
    assert not names & {"script", "img", "iframe", "a"}
    assert {"svg", "polyline", "table", "article"} <= names
    assert "Refused to" not in log  # nothing even tried
    browser.paper(page, at.folder / "r.pdf")
    assert (at.folder / "r.pdf").read_bytes().startswith(b"%PDF")
