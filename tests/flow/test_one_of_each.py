"""A store that holds one of everything: no command says "1 traces"."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.workplace import Workplace
from tracejudge.store import Store
from tracejudge_consumer.cli import run

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

ONE = {
    "trace_id": "t-1", "app": "shop", "version": "v1", "query": "How long is the warranty?", "case_id": "c-1",
    "response": "The warranty is two years.", "source_nodes": ["The warranty is two years from the day of purchase."],
    "labels": {"faithfulness": True}, "label_source": "somebody",
}  # fmt: skip
NOUNS = (
    "records|traces|scores|rows|answers|questions|calls|runs|lines|verdicts|labels|anchors|alerts|cases|times|parts|"
    "pairs|values|letters|judges|files|errors|partitions|windows|samples|chunks|entries|people|apps|versions|judgements"
)
MANY = re.compile(rf"(?<![\d.,-])1 (?:(?!by|with|of|on|in)[a-z]+ )?(?:{NOUNS})\b")
COMMANDS = (
    "contract check one.jsonl",
    "score one.jsonl",
    "score one.jsonl --dry-run",
    "gate one.jsonl.scores.jsonl --baseline b.json --update-baseline",
    "gate one.jsonl.scores.jsonl --baseline b.json",
    "ingest one.jsonl broken.jsonl",
    "doctor",
    "consume --until-idle",
    "ledger --since 3650d",
    "ledger --since 3650d --hourly",
    "rates --since 3650d --step all --facts",
    "worst --since 3650d",
    "find warranty --since 3650d",
    "show t-1",
    "dead-letters",
    "cost",
    "stats",
    "judges noise lexical --since 3650d --traces 2",
    "judges check",
    "replay --judge lexical --since 3650d --run try-1 --dry-run",
    "replay --judge lexical --since 3650d --run try-1",
    "compare live:lexical try-1",
    "report --since 3650d --html r.html",
    "retry --since 3650d",
    "anchors build golden --since 3650d",
    "anchors list",
    "anchors show golden",
    "anchors run golden --judge lexical",
    "dataset build d --since 3650d",
    "export traces -o out.jsonl",
    "sampling plan --per-hour 200 --since 3650d",
    "sampling explain t-1",
    "alerts",
    "alerts backtest --since 3650d",
    "forget --trace-id t-1 --yes",
)


@pytest.fixture
def at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store_url: str, store: Store
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    settings = f"""\
queue = "sqlite:///queue.db"
store = "{store_url}"

[[judges]]
name = "lexical"
kind = "lexical"

[[rules]]
name = "m"
judge = "lexical"
minimum = 0.7
"""
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    (tmp_path / "one.jsonl").write_text(json.dumps(ONE) + "\n", encoding="utf-8")
    (tmp_path / "broken.jsonl").write_text("{\n", encoding="utf-8")
    (tmp_path / "thresholds.toml").write_text('[[thresholds]]\njudge = "lexical"\nminimum = 0.5\n', encoding="utf-8")
    return Workplace(tmp_path, capsys, settings)


def test_one_is_one_trace_and_not_one_traces(at: Workplace, store: Store) -> None:
    said = {}
    for command in COMMANDS:
        at.capsys.readouterr()
        status = run(command.split())
        shown = at.capsys.readouterr()
        assert status not in (64, 70, 75), f"{command}: {status}\n{shown.err}"
        # Lines are joined again where a narrow terminal broke them; an indented one begins a thought of its own.
        said[command] = " ".join((shown.out + shown.err).replace("\n  ", " | ").split())
    said["forget --trace-id t-1 --yes"] = said["forget --trace-id t-1 --yes"].partition(" deleted")[0]  # then tables
    said["the page"] = (at.folder / "r.html").read_text(encoding="utf-8")
    assert not {command: MANY.findall(text) for command, text in said.items() if MANY.search(text)}
    assert "1 trace = 1 scored" in said["ledger --since 3650d"]
