"""`tracejudge score` on files: results in either form, what was done beside them, and one's own query engine."""

from __future__ import annotations

import asyncio
import builtins
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import Engine
from tests.support.judge_script import always
from tests.support.judge_server import JudgeServer
from tests.support.workplace import Workplace
from tracejudge.errors import SettingsError
from tracejudge.judging.query_engine import AHEAD, answers, load_engine
from tracejudge.testing import ManualClock, make_trace
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_USAGE

ENGINES = "tests.support.engines"


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(always('{"unsupported": [], "verdict": "YES"}', usage=(1000, 100))) as server:
        yield server


@pytest.fixture
def at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], judge: JudgeServer
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    judges = f"""\
[[judges]]
name = "lexical"
kind = "lexical"

[[judges]]
name = "faithful"
kind = "faithfulness"
base_url = "{judge.base_url}"
model = "judge"
max_calls_per_h = 1000
usd_per_million_input_tokens = 1.0
usd_per_million_output_tokens = 10.0

[[judges]]
name = "found"
kind = "hit_rate"

[[judges]]
name = "quick"
kind = "latency"
options = {{ max_ms = 100000 }}
"""
    (tmp_path / "judges.toml").write_text(judges, encoding="utf-8")
    return Workplace(tmp_path, capsys, judges)


def answers_file(folder: Path, rows: int = 5) -> None:
    lines = [
        {"query": f"q{n}", "response": f"The limit is ten. \ud83d\ude00 {n}", "source_nodes": ["The limit is ten."]}
        for n in range(rows)
    ]
    lines.append({"query": "odd \ud800", "response": "The limit is ten.", "source_nodes": []})
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_parquet_and_json_lines_hold_the_same_rows_in_the_order_of_the_file(at: Workplace) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet", reason="Parquet is an extra")
    answers_file(at.folder)
    at.json("score", "answers.jsonl", "--judge", "judges.toml", "--output", "out.jsonl")
    at.json("score", "answers.jsonl", "--judge", "judges.toml", "--output", "out.parquet")
    lines = [json.loads(line) for line in (at.folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = pyarrow.read_table(at.folder / "out.parquet").to_pylist()
    assert len(rows) == len(lines) == 6 * 4
    unsteady = {"judge_latency_ms"}
    for line, row in zip(lines, rows, strict=True):
        assert {k: v for k, v in line.items() if k not in unsteady} == {
            k: v for k, v in row.items() if k not in unsteady
        }
    faithful = [row for row in rows if row["judge"] == "faithful"]
    assert {row["outcome"] for row in faithful} == {"passed", "not_applicable"}
    assert faithful[0]["cost_usd"] == pytest.approx(0.002)
    assert [row["heuristic"] for row in rows if row["judge"] == "lexical"] == [True] * 6


def test_half_a_character_in_a_reply_is_no_escape_that_readers_refuse(at: Workplace, judge: JudgeServer) -> None:
    judge.script = always('{"unsupported": ["\\ud800"], "verdict": "NO"}')
    answers_file(at.folder, rows=1)
    at.json("score", "answers.jsonl", "--judge", "judges.toml", "--output", "out.jsonl")
    rows = (at.folder / "out.jsonl").read_text(encoding="utf-8")
    feedback = [row["feedback"] for row in map(json.loads, rows.splitlines()) if row["judge"] == "faithful"]
    assert feedback[0] == "Not supported: \ufffd"


def test_the_mean_score_is_that_of_the_rows(at: Workplace) -> None:
    answers_file(at.folder)
    found = at.json("score", "answers.jsonl", "--output", "out.jsonl")["judges"]["lexical"]["pass_rate"]
    rows = [json.loads(line) for line in (at.folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    scores = [row["score"] for row in rows if row["score"] is not None]
    assert found["mean_score"] == pytest.approx(sum(scores) / len(scores))
    assert found["mean_score"] > 0.0


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_run_that_cannot_begin_leaves_the_verdicts_of_the_last_one(
    at: Workplace, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow.parquet", reason="Parquet is an extra")
    answers_file(at.folder)
    judges = (at.folder / "judges.toml").read_text(encoding="utf-8")
    judges = judges.replace('model = "judge"', 'model = "judge"\napi_key_env = "KEY_OF_THE_JUDGE"')
    (at.folder / "judges.toml").write_text(judges, encoding="utf-8")
    monkeypatch.setenv("KEY_OF_THE_JUDGE", "k")
    at.json("score", "answers.jsonl", "--judge", "judges.toml", "--output", name)
    kept = (at.folder / name).read_bytes()
    monkeypatch.delenv("KEY_OF_THE_JUDGE")
    said = at("score", "answers.jsonl", "--judge", "judges.toml", "--output", name, expect=EXIT_USAGE)
    assert "KEY_OF_THE_JUDGE, which is not set" in said
    assert (at.folder / name).read_bytes() == kept
    at("score", "answers.jsonl", "--judge", "judges.toml", "--output", f"new-{name}", expect=EXIT_USAGE)
    assert not (at.folder / f"new-{name}").exists()
    monkeypatch.setenv("KEY_OF_THE_JUDGE", "k")
    (at.folder / "answers.jsonl").write_text((at.folder / "answers.jsonl").read_text().splitlines()[0] + "\n")
    at.json("score", "answers.jsonl", "--judge", "judges.toml", "--output", name)
    assert 0 < len((at.folder / name).read_bytes()) < len(kept), "nothing is left of the longer run"


def test_the_verdicts_of_another_judge_are_not_written_over(at: Workplace) -> None:
    answers_file(at.folder)
    first = at.json("score", "answers.jsonl")
    kept = Path(first["output"]).read_bytes()
    quick = '[[judges]]\nname = "quick"\nkind = "latency"\noptions = {{ max_ms = {} }}\n'
    (at.folder / "quick.toml").write_text(quick.format(10), encoding="utf-8")
    second = at.json("score", "answers.jsonl", "--judge", "quick.toml")
    assert second["output"] == "answers.jsonl.quick.scores.jsonl"
    assert Path(first["output"]).read_bytes() == kept
    assert at.json("score", "answers.jsonl")["output"] == first["output"], "its own may be written again"
    (at.folder / "quick.toml").write_text(quick.format(20), encoding="utf-8")
    said = at("score", "answers.jsonl", "--judge", "quick.toml", expect=EXIT_USAGE)
    assert "answers.jsonl.quick.scores.jsonl holds the verdicts of another version of quick" in said
    at.json("score", "answers.jsonl", "--judge", "quick.toml", "--output", "twice.jsonl")


def test_verdicts_that_were_broken_off_before_their_manifest_are_kept_for_their_judge(at: Workplace) -> None:
    answers_file(at.folder)
    output = Path(at.json("score", "answers.jsonl")["output"])
    Path(f"{output}.manifest.json").unlink()
    output.write_bytes(kept := output.read_bytes()[:-20])
    (at.folder / "quick.toml").write_text(
        '[[judges]]\nname = "quick"\nkind = "latency"\noptions = { max_ms = 10 }\n', encoding="utf-8"
    )
    second = at.json("score", "answers.jsonl", "--judge", "quick.toml")
    assert second["output"] == "answers.jsonl.quick.scores.jsonl"
    assert output.read_bytes() == kept
    assert at.json("score", "answers.jsonl")["output"] == str(output), "what was broken off begins anew"


def test_one_id_in_two_apps_are_two_answers(at: Workplace) -> None:
    lines = [
        {
            "trace_id": "t",
            "app": app,
            "case_id": f"case of {app}",
            "query": "q",
            "response": f"Ten in {app}.",
            "source_nodes": ["Ten."],
        }
        for app in ("desk", "shop")
    ]
    (at.folder / "two.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    at.json("score", "two.jsonl", "--judge", "judges.toml", "--output", "out.jsonl")
    rows = [json.loads(line) for line in (at.folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    lexical = [(row["app"], row["case_id"]) for row in rows if row["judge"] == "lexical"]
    assert sorted(lexical) == [("desk", "case of desk"), ("shop", "case of shop")]


def test_the_manifest_says_what_was_judged_by_whom_and_what_came_of_it(at: Workplace) -> None:
    answers_file(at.folder)
    told = at.json("score", "answers.jsonl", "--judge", "judges.toml", "--max-calls", "50")
    manifest = json.loads(Path(told["manifest"]).read_text(encoding="utf-8"))
    assert manifest["source"]["file"] == "answers.jsonl"
    assert len(manifest["source"]["sha256"]) == 64
    assert manifest["caps"] == {"max_calls": 50, "max_usd": None}
    assert manifest["traces"] == 6
    judges = {judge["spec"]["name"]: judge for judge in manifest["judges"]}
    assert judges["faithful"]["judge_id"].startswith("faithful@")
    assert manifest["results"]["faithful"]["calls"] == 5
    assert manifest["results"]["faithful"]["cost_usd"] == pytest.approx(0.01)
    assert manifest["engine"] is None
    assert manifest["started_at"] <= manifest["finished_at"]


def test_parquet_without_its_package_says_what_to_install(at: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    answers_file(at.folder)
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    shown = at("score", "answers.jsonl", "--output", "out.parquet", expect=EXIT_USAGE)
    assert "pip install 'tracejudge[parquet]'" in shown


def test_one_s_own_query_engine_answers_the_questions_of_the_file(at: Workplace) -> None:
    lines = [{"query": f"plan {n}", "expected_ids": ["p-1" if n % 2 else "p-2"]} for n in range(6)]
    lines += [{"query": "stream"}, {"query": "POISON"}]
    (at.folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    options = ("--judge", "judges.toml", "--engine", f"{ENGINES}:build_engine", "--engine-concurrency", "3")
    told = at.json("score", "questions.jsonl", *options, "--output", "out.jsonl")
    assert told["engine"]["answered"] == 7
    assert told["engine"]["errors"] == 1
    assert told["engine"]["latency_ms"]["p95"] >= told["engine"]["latency_ms"]["median"] >= 0
    rows = [json.loads(line) for line in (at.folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    found = {row["query"]: row["outcome"] for row in rows if row["judge"] == "found"}
    assert [found[f"plan {n}"] for n in range(4)] == ["failed", "passed", "failed", "passed"]
    faithful = {row["query"]: row for row in rows if row["judge"] == "faithful"}
    assert faithful["stream"]["response"] == "Paris"
    assert (faithful["POISON"]["outcome"], faithful["POISON"]["reason"]) == ("not_applicable", "status_error")
    quick = [row for row in rows if row["judge"] == "quick" and row["query"] != "POISON"]
    assert {row["outcome"] for row in quick} == {"passed"}
    assert all(row["answer_latency_ms"] >= 0 for row in quick)
    shown = at("score", "questions.jsonl", *options)
    assert "7 answers, 1 error" in shown


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no.such.module:x", "cannot import"),
        (f"{ENGINES}:nothing", "cannot import"),
        (ENGINES, "package.module:name"),
        (f"{ENGINES}:no_engine", "gives a str"),
        (f"{ENGINES}:broken", "no index on disk"),
    ],
)
def test_what_is_no_engine_is_said_before_anything_is_asked(at: Workplace, path: str, said: str) -> None:
    (at.folder / "q.jsonl").write_text('{"query": "q"}\n', encoding="utf-8")
    assert said in at("score", "q.jsonl", "--engine", path, expect=EXIT_USAGE)
    with pytest.raises(SettingsError):
        load_engine(path)


async def test_the_engine_has_a_concurrency_of_its_own_and_does_not_run_away() -> None:
    engine, asked = Engine(), 0

    def traces() -> Iterator[Any]:
        nonlocal asked
        for n in range(100):
            asked += 1
            yield make_trace(n, query=f"plan {n}", response=None, status="error")

    answered = answers(engine, traces(), concurrency=3, clock=ManualClock(), timeout_s=30)
    first = [await anext(answered) for _ in range(2)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert asked <= 3 * AHEAD + 2
    rest = [trace async for trace in answered]
    assert [trace.trace_id for trace in (*first, *rest)] == [f"t-{n:06d}" for n in range(100)]
    assert engine.most_open == 3
    assert {trace.status for trace in rest} == {"ok"}


async def test_an_engine_is_asked_nothing_more_once_nobody_reads_on() -> None:
    before = asyncio.all_tasks()
    traces = [make_trace(n, query="HANG" if n else "plan") for n in range(9)]
    answered = answers(Engine(), traces, concurrency=3, clock=ManualClock(), timeout_s=30)
    await anext(answered)
    await answered.aclose()
    assert asyncio.all_tasks() == before


async def test_b12_an_engine_that_never_answers_costs_one_trace() -> None:
    traces = [make_trace(n, query="HANG" if n == 1 else "plan") for n in range(3)]
    answered = [t async for t in answers(Engine(), traces, concurrency=2, clock=ManualClock(), timeout_s=0.05)]
    assert [trace.status for trace in answered] == ["ok", "error", "ok"]
    assert answered[1].response is None
    assert "0.05 s" in (answered[1].error or "")


def test_an_engine_may_be_an_object_or_a_function() -> None:
    assert load_engine(f"{ENGINES}:ENGINE") is load_engine(f"{ENGINES}:ENGINE")
    assert isinstance(load_engine(f"{ENGINES}:Engine"), Engine)


def test_a_dry_run_asks_nobody(at: Workplace, judge: JudgeServer) -> None:
    (at.folder / "q.jsonl").write_text('{"query": "q"}\n', encoding="utf-8")
    told = at.json(
        "score", "q.jsonl", "--judge", "judges.toml", "--engine", f"{ENGINES}:broken", "--dry-run", expect=EXIT_DONE
    )
    assert {item["judge_name"]: item["calls"] for item in told["plan"]}["faithful"] == 1
    assert judge.stats.calls == 0


def test_a_line_without_a_response_and_one_that_cannot_be_read_are_told_for_what_they_are(at: Workplace) -> None:
    good = {"query": "q", "response": "The limit is ten.", "source_nodes": ["The limit is ten."]}
    lines = [json.dumps(good), json.dumps({"query": "q", "source_nodes": ["The limit is ten."]}), "not json"]
    (at.folder / "few.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    told = at("score", "few.jsonl", expect=EXIT_DONE)
    assert "1 not applicable: no_response" in told
    assert "line 3 cannot be read" in told
    assert at.json("score", "few.jsonl", expect=EXIT_DONE)["broken"] == 1
