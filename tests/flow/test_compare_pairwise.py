"""Two pipelines' answers held against each other by a pairwise judge: preference, ties, and what the place did."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.judge_reply import JudgeRequest, Reply
from tests.support.judge_server import JudgeServer
from tests.support.workplace import Workplace
from tracejudge.store import Store, StoredTrace
from tracejudge.testing import make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.terminal.exit_status import EXIT_FAILED, EXIT_UNDECIDED, EXIT_USAGE

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

CASES = 60
FIRST_PLACE = 12
"""Questions on which the judge names whatever it reads first."""


def better(request: JudgeRequest) -> Reply:
    """v42's answers win, but for every fifth; the first ones go by the place, the next four are ties."""
    old = int(re.findall(r"old answer (\d+)", request.prompt)[0])
    new_is_a = request.prompt.index("new answer") < request.prompt.index("old answer")
    if old < FIRST_PLACE:
        word = "A"
    elif old < FIRST_PLACE + 4:
        word = "TIE"
    else:
        word = "A" if new_is_a == (old % 5 != 0) else "B"
    return Reply(f'{{"explanation": "so it is", "better": "{word}"}}', usage=(100, 10))


def test_two_files_are_held_against_each_other(at: Workplace, server: JudgeServer) -> None:
    def answers(name: str, word: str, cases: range) -> str:
        rows = [
            {"query": "which?", "response": f"{word} answer {number}", "case_id": f"case-{number}"} for number in cases
        ]
        (at.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return name

    new, old = answers("new.jsonl", "new", range(20)), answers("old.jsonl", "old", range(5, 30))
    found = at.json("score", new, "--judge", "duel", "--against", old, "--max-calls", "100")
    assert found["traces"] == 15  # the questions that both answer
    rows = [json.loads(line) for line in (at.folder / "new.jsonl.scores.jsonl").read_text().splitlines()]
    assert {row["case_id"]: row["score"] for row in rows if row["score"] != 0.5} == {
        "case-16": 1.0, "case-17": 1.0, "case-18": 1.0, "case-19": 1.0,
    }  # fmt: skip
    nobody = answers("others.jsonl", "old", range(100, 103))
    said = at("score", new, "--judge", "duel", "--against", nobody, "--max-calls", "9", expect=EXIT_UNDECIDED)
    assert "share no question" in said
    assert "judges one answer" in at("score", new, "--judge", "lexical", "--against", old, expect=EXIT_USAGE)
    with (at.folder / old).open("a") as file:
        file.write((at.folder / old).read_text().splitlines()[0].replace("old answer", "older answer") + "\n")
    said = at("score", new, "--judge", "duel", "--against", old, "--max-calls", "9", expect=EXIT_USAGE)
    assert "line 26: a second answer to case 'case-5'" in said


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(better) as running:
        yield running


@pytest.fixture
def at(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    store_url: str,
    store: Store,
    server: JudgeServer,
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    settings = f"""\
queue = "sqlite:///queue.db"
store = "{store_url}"

[[judges]]
name = "duel"
kind = "pairwise"
base_url = "{server.base_url}"
model = "judge"
max_calls_per_h = 100000

[[judges]]
name = "lexical"
kind = "lexical"
"""
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    for version, word, first in (("v41", "old", 0), ("v42", "new", 1000)):
        traces = [
            make_trace(first + n, version=version, case_id=f"case-{n}", response=f"{word} answer {n} of the plan")
            for n in range(CASES)
        ]
        # An earlier answer to a question, a question of this version alone, and ordinary traffic of no case.
        traces.append(make_trace(first + 900, version=version, case_id=f"only-{version}"))
        traces.append(make_trace(first + 901, version=version))
        store.traces.insert([StoredTrace(trace=trace, ingested_at=START) for trace in traces])
    early = make_trace(5000, version="v42", case_id="case-30", event_time=START, response="the first try")
    store.traces.insert([StoredTrace(trace=early, ingested_at=START)])
    return Workplace(tmp_path, capsys, settings)


def test_a_preference_is_told_with_its_interval_and_the_judges_bias(at: Workplace, server: JudgeServer) -> None:
    plan = at.json("replay", "--judge", "duel", "--version", "v42", "--against", "v41", "--run", "duel-1", "--dry-run")
    assert (plan["traces"], plan["plan"][0]["cost"]["calls"]) == (CASES, 2 * CASES)
    report = at.json("replay", "--judge", "duel", "--version", "v42", "--against", "v41", "--run", "duel-1")
    assert (report["complete"], report["calls"]) == (True, 2 * CASES)
    lost = sum(n % 5 == 0 for n in range(FIRST_PLACE + 4, CASES))
    found = at.json("compare", "v41", "v42", "--cases", "--run", "duel-1", "--by", "version")
    told = found["preference"]["all"]
    assert told["counts"] == {
        "a_better": lost, "b_better": CASES - FIRST_PLACE - 4 - lost, "tie": 4, "one_order": 0,
        "first_place": FIRST_PLACE, "second_place": 0,
    }  # fmt: skip
    assert told["by_place"]["value"] == pytest.approx(FIRST_PLACE / CASES)
    assert told["place_p"] == pytest.approx(2 * 0.5**FIRST_PLACE)
    assert told["b_share"]["low"] > 0.5
    assert found["in_words"][0].startswith("v42's answers are preferred to v41's")
    assert "favours the answer it reads first" in found["in_words"][1]
    assert list(found["preference"]["slices"]) == ["v42"]
    shown = at("compare", "v41", "v42", "--cases", "--judge", "duel", "--run", "duel-1")
    assert "the answer read first won both times" in shown
    again = at.json("replay", "--judge", "duel", "--version", "v42", "--against", "v41", "--run", "duel-1")
    assert (again["already_settled"], server.stats.calls) == (CASES, 2 * CASES)


def test_pairs_that_are_none_are_refused_with_the_way_out(at: Workplace) -> None:
    at("replay", "--judge", "duel", "--against", "v41", "--run", "x", expect=EXIT_USAGE)
    at("replay", "--judge", "duel", "--version", "v41", "--against", "v41", "--run", "x", expect=EXIT_USAGE)
    at("replay", "--judge", "lexical", "--version", "v42", "--against", "v41", "--run", "x", expect=EXIT_USAGE)
    nothing = ("replay", "--judge", "duel", "--version", "v42", "--against", "v9", "--run", "x")
    assert "share no question" in at(*nothing, expect=EXIT_UNDECIDED)
    at("replay", "--judge", "duel", "--version", "v42", "--against", "v41", "--run", "duel-1")
    turned = at("compare", "v42", "v41", "--cases", "--run", "duel-1", expect=EXIT_FAILED)
    assert "tracejudge compare v41 v42 --cases --run duel-1" in turned
    lives = at("compare", "v41", "v42", "--cases", "--judge", "duel", expect=EXIT_FAILED)
    assert "--against v41" in lives
