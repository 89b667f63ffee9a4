"""What somebody logs already, through six lines of settings, from the queue and from files to scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.memory_store import MemoryStore
from tests.support.passage_texts import TEXTS, texts
from tests.support.records import append, committed
from tests.support.running_pipeline import run_to_the_end
from tests.support.scripted_panel import ScriptedPanel
from tracejudge.errors import ServiceUnavailable, SettingsError
from tracejudge.judging import JudgeTask
from tracejudge.scores import Outcome
from tracejudge.store import Store
from tracejudge.testing import make_trace
from tracejudge_consumer.cli import run
from tracejudge_consumer.intake.form import RecordForm
from tracejudge_consumer.intake.resolve import NodeResolver, load_hook
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED, EXIT_USAGE

SIX_LINES = """
[intake.mapping]
query = "question"
response = "answer"
source_nodes = "doc_ids"
latency_ms = "took_ms"
event_time = { path = "ts", format = "epoch_s" }
"""
HOOK = '[intake]\nresolve_nodes = "tests.support.passage_texts:texts"\n'


def foreign(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "question": "What is the limit of the plan?",
        "answer": "The limit of the plan is ten users.",
        "doc_ids": ["d-1", "d-2"],
        "took_ms": 250,
        "ts": 1_767_268_800 + number,
        **fields,
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_url: str) -> Path:
    monkeypatch.chdir(tmp_path)
    settings(tmp_path, store_url)
    return tmp_path


def settings(folder: Path, store_url: str, *, before: str = "", after: str = "") -> None:
    text = f'queue = "sqlite:///rag-log.db"\nstore = "{store_url}"\n{before}{SIX_LINES}{after}'
    (folder / "tracejudge.toml").write_text(text)


def fill(folder: Path, *records: Any) -> None:
    append(folder / "rag-log.db", [r if isinstance(r, bytes) else json.dumps(r).encode() for r in records])


def decisions(store: Store) -> list[tuple[str, str]]:
    return sorted(
        (str(decision), str(reason)) for decision, reason in store.query("SELECT decision, reason FROM ledger FINAL")
    )


def consume(capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert run(["consume", "--until-idle", "--json"]) == EXIT_DONE
    return json.loads(capsys.readouterr().out)


def test_ids_without_text_are_accounted_for_as_not_applicable(
    folder: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(folder, foreign(1), foreign(2), make_trace(3).model_dump(mode="json"))
    report = consume(capsys)
    assert (report["traces"], report["passed"], report["ledger"]) == (3, 1, {"not_applicable": 2})
    assert decisions(store) == [("not_applicable", "no_passage_text")] * 2
    shown = store.query("SELECT DISTINCT app FROM traces FINAL ORDER BY app")
    assert [row[0] for row in shown] == ["rag-log", "shop"]


def test_a_hook_gives_ids_their_texts_and_they_are_judged_and_kept(
    folder: Path, store_url: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    settings(folder, store_url, before=HOOK)
    fill(folder, foreign(1), foreign(2, doc_ids=["unknown"]))
    report = consume(capsys)
    assert (report["traces"], report["passed"], report["ledger"]) == (2, 1, {"not_applicable": 1})
    kept = store.query("SELECT node_texts FROM traces FINAL")
    assert sum(TEXTS["d-1"] in str(row) for row in kept) == 1


def test_an_unreadable_record_is_a_dead_letter_that_names_the_path(
    folder: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(folder, foreign(1), {"answer": "a"}, foreign(3, ts="noon"), b"{")
    report = consume(capsys)
    assert report["traces"] == 1
    assert report["dead_letters"] == {"unmapped": 2, "not_json": 1}
    rows = store.query("SELECT detail, value FROM dead_letters FINAL ORDER BY partition, offset")
    assert "the path 'question' leads nowhere" in rows[0][0]
    assert "the path 'ts' leads to 'noon'" in rows[1][0]
    assert committed(folder / "rag-log.db", "tracejudge") == 4


def test_a_file_of_another_form_is_ingested_and_scored(
    folder: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps(one) for one in (foreign(1), {"answer": "no question"}, foreign(2))]
    (folder / "log.jsonl").write_text("\n".join(lines))
    assert run(["ingest", "log.jsonl", "--app", "shop", "--json"]) == EXIT_DONE
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["sent"], report["dead_letters"]) == (2, 1)
    assert "'question' leads nowhere" in str(report["reasons"])
    assert consume(capsys)["ledger"] == {"not_applicable": 2}
    assert run(["score", "log.jsonl", "--json"]) == EXIT_DONE
    (judged,) = json.loads(capsys.readouterr().out)["judges"]["lexical"]["not_judged"]
    assert (judged["reason"], judged["traces"]) == ("no_passage_text", 2)


def test_a_mapping_that_finds_no_texts_is_told_by_consume_and_ledger(
    folder: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(folder, *(foreign(number) for number in range(19)), foreign(19, answer=""))
    assert run(["consume", "--until-idle"]) == EXIT_DONE
    said = capsys.readouterr().out
    assert "not applicable to lexical: 19 no_passage_text, 1 no_response" in said
    hint = "hint: 19 of 20 traces of lexical came without the text of a passage: check source_nodes of [intake.mapping]"
    assert hint in said
    assert run(["ledger", "--since", "2026-01-01T00:00:00Z"]) == EXIT_DONE
    said = capsys.readouterr().out
    assert "not applicable to lexical (heuristic): 19 no_passage_text, 1 no_response" in said
    assert hint in said
    assert run(["ledger", "--since", "2026-01-01T00:00:00Z", "--json"]) == EXIT_DONE
    told = json.loads(capsys.readouterr().out)
    assert told["lines"][0]["not_applicable"] == {"no_passage_text": 19, "no_response": 1}
    assert hint == f"hint: {told['hints'][0]}"[: len(hint)]


def test_where_few_traces_lack_something_there_is_no_hint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder, foreign(1), make_trace(2).model_dump(mode="json"), make_trace(3).model_dump(mode="json"))
    assert run(["consume", "--until-idle"]) == EXIT_DONE
    said = capsys.readouterr().out
    assert "not applicable to lexical: 1 no_passage_text" in said
    assert "hint" not in said


def test_a_mapping_is_tried_without_anything_being_sent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings(folder, "chdb:///not-made", after='environment = "staging"\ntags = { region = "geo" }\n')
    lines = [
        foreign(1, question="what \x1b[31mis\u202e it?\ntwo", geo="eu\x1b]"),
        {"answer": "no question"},
        foreign(3, doc_ids=[]),
        foreign(4, ts=1_767_268_800_000),
        {"answer": "none either"},
        *(foreign(number, ts=f"{number} o'clock") for number in (5, 6)),
    ]
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert run(["ingest", "log.jsonl", "--app", "shop", "--dry-run", "--lines", "3"]) == EXIT_DONE
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "line 1: trace line-" in said
    assert "time      2026-01-01 12:00:01 UTC" in said
    assert "passages  2, 0 of them with text" in said
    assert "region=eu" in said
    assert "line 2: unreadable: unmapped: query: the path 'question' leads nowhere" in said
    assert "line 4" not in said
    assert "log.jsonl: 7 lines, 2 readable, 5 unreadable; nothing was sent" in said
    assert "2 unreadable: unmapped: query" in said
    assert (
        "2 unreadable: such as: unmapped: event_time: the path 'ts' leads to \"5 o'clock\", which is not a number"
        in said
    )
    assert said.count("from the path") == 0, "the refusal names the path itself"
    assert "in no line: environment: the path 'staging' leads nowhere; if staging is meant for every record" in said
    assert said.count("in no line") == 1
    assert 'set format = "epoch_ms"' in said
    assert {path.name for path in folder.iterdir()} == {"tracejudge.toml", "log.jsonl"}
    assert run(["ingest", "log.jsonl", "--app", "shop", "--dry-run", "--json"]) == EXIT_DONE
    (tried,) = json.loads(capsys.readouterr().out)
    assert (tried["lines"], tried["readable"], tried["unreadable"]) == (7, 2, 5)
    assert (tried["first"][0]["passages"], tried["first"][0]["passages_with_text"]) == (2, 0)
    assert tried["first"][0]["event_time"] == "2026-01-01T12:00:01.000Z"
    (folder / "log.jsonl").write_text("{}")
    assert run(["ingest", "log.jsonl", "--app", "shop", "--dry-run"]) == EXIT_FAILED


def test_a_dry_run_gives_lines_the_app_that_the_consumer_gives_records(
    folder: Path, store: Store, store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings(folder, store_url)
    fill(folder, foreign(1))
    assert run(["consume", "--until-idle"]) == EXIT_DONE
    capsys.readouterr()
    ((stored,),) = store.query("SELECT app FROM traces FINAL")
    (folder / "log.jsonl").write_text(json.dumps(foreign(1)))
    assert run(["ingest", "log.jsonl", "--dry-run", "--json"]) == EXIT_DONE
    (tried,) = json.loads(capsys.readouterr().out)
    assert tried["first"][0]["app"] == stored
    assert run(["ingest", "log.jsonl", "--dry-run"]) == EXIT_DONE
    said = capsys.readouterr().out
    assert "not mapped: trace_id" in said
    assert "not mapped: event_time" not in said


def test_the_check_of_the_settings_tells_how_to_try_the_mapping(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "check"]) == EXIT_DONE
    said = capsys.readouterr().out
    assert "mapping  query, response, source_nodes, event_time, latency_ms (try it: tracejudge ingest --dry-run" in said


def test_a_wrong_mapping_is_told_with_its_key(folder: Path, store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    settings(folder, store_url, after='qestion = "x"\nversion = "a..b"\n')
    assert run(["config", "check"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "intake.mapping.qestion" in said
    assert "intake.mapping.version.path" in said


# -- the hook ----------------------------------------------------------------------------------------------------------


def bare(number: int, *ids: str) -> Any:
    return make_trace(number, source_nodes=[{"node_id": one} for one in ids])


def test_while_the_texts_source_is_away_records_wait_and_are_judged_with_text(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    append(path, [bare(1, "d-1"), bare(2, "d-2")])
    failures = [ConnectionError("index is down"), TimeoutError("slow")]

    def hook(ids: Sequence[str]) -> Mapping[str, str]:
        if failures:
            raise failures.pop()
        return texts(ids)

    seen: list[str | None] = []

    def verdict(task: JudgeTask) -> Outcome:
        seen.extend(node.text for node in task.trace.source_nodes)
        return Outcome.PASSED

    store, panel = MemoryStore(), ScriptedPanel(verdict=verdict)
    report = run_to_the_end(path, store, panel, form=RecordForm(resolver=NodeResolver(hook, name="x:y")))
    assert report.traces == 2
    assert not failures
    assert sorted(map(str, seen)) == sorted([TEXTS["d-1"], TEXTS["d-2"]])


def test_a_hook_that_is_wrong_stops_nothing_and_is_counted() -> None:
    counted: list[tuple[str, int]] = []

    def hook(ids: Sequence[str]) -> Mapping[str, str | None]:
        if "boom" in ids:
            raise KeyError("boom")
        return {"d-1": "text", "d-2": None}

    resolver = NodeResolver(hook, name="x:y", unresolved=lambda reason, count: counted.append((reason, count)))
    assert resolver.filled([bare(1, "boom")]) == [bare(1, "boom")]
    (filled,) = resolver.filled([bare(2, "d-1", "d-2", "d-1")])
    assert [node.text for node in filled.source_nodes] == ["text", None, "text"]
    assert counted == [("hook_failed", 1), ("unknown", 1)]


def test_each_id_of_a_batch_is_asked_for_once_and_only_where_a_text_is_missing() -> None:
    asked: list[list[str]] = []

    def hook(ids: Sequence[str]) -> Mapping[str, str]:
        asked.append(list(ids))
        return {}

    NodeResolver(hook, name="x:y").filled([bare(1, "a", "b"), bare(2, "b", "c"), make_trace(3)])
    assert asked == [["a", "b", "c"]]


def test_an_answer_of_the_hook_that_utf8_cannot_hold_is_mended() -> None:
    (filled,) = NodeResolver(lambda ids: {"a": "x\ud800"}, name="x:y").filled([bare(1, "a")])
    assert filled.source_nodes[0].text == "x\ufffd"


def test_a_source_that_is_away_is_a_service_that_is_away() -> None:
    def hook(ids: Sequence[str]) -> Mapping[str, str]:
        raise OSError("no route")

    with pytest.raises(ServiceUnavailable, match=r"x:y.*no route"):
        NodeResolver(hook, name="x:y").filled([bare(1, "a")])


@pytest.mark.parametrize("name", ["nowhere.at_all:f", "json:nothing", "json:__name__", "json", ":f"])
def test_a_hook_that_cannot_be_loaded_is_a_fault_of_the_settings(name: str) -> None:
    with pytest.raises(SettingsError, match=r"intake\.resolve_nodes"):
        load_hook(name)


def test_a_hook_whose_module_breaks_is_a_fault_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_texts.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SettingsError, match=r"intake\.resolve_nodes: .*ZeroDivisionError.*PYTHONPATH"):
        load_hook("broken_texts:texts")


def test_a_function_of_a_module_can_be_loaded() -> None:
    assert load_hook("tests.support.passage_texts:texts")(["d-1", "x"]) == {"d-1": TEXTS["d-1"]}
