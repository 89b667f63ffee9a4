"""From traffic to a dataset to one's own LlamaIndex query engine to a gate: the whole way, by commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.workplace import Workplace
from tracejudge.store import Store, StoredTrace
from tracejudge.testing import make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.terminal.exit_status import EXIT_FAILED

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")
pytest.importorskip("datasketch", reason="near duplicates need the extra 'datasets'")

ENGINES = "tests.support.index_engines"
TOWNS = ("Paris", "Rome", "Oslo", "Lima", "Kyoto", "Cairo", "Quito", "Delhi", "Turin", "Porto")
ASKED = ("Where is the bridge of {}?", "Which museum in {} opens late?", "When was the market of {} built?")


@pytest.fixture
def at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store_url: str, store: Store
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    settings = f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n'
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    (tmp_path / "thresholds.toml").write_text(
        'max_latency_p95_ms = 60000\n[[thresholds]]\njudge = "lexical"\nminimum = 0.5\nmax_drop = 0.1\n',
        encoding="utf-8",
    )
    questions = [form.format(town) for town in TOWNS for form in ASKED]
    traces = [make_trace(n, query=one, version="v1") for n, one in enumerate(questions * 2)]  # each was asked twice
    store.traces.insert([StoredTrace(trace=trace, ingested_at=START) for trace in traces])
    return Workplace(tmp_path, capsys, settings)


def test_a_built_dataset_runs_through_an_engine_and_a_gate(at: Workplace) -> None:
    built = at.json("dataset", "build", "questions", "--since", "2020-01-01Z", "--share", "1", "--near", "1")
    assert (built["rows"], built["exact_duplicates"]) == (30, 30)
    dataset = built["path"]

    def answered(engine: str, out: str) -> Any:
        at("score", dataset, "--engine", f"{ENGINES}:{engine}", "--judge", "lexical", "--output", out)
        return [json.loads(line) for line in (at.folder / out).read_text(encoding="utf-8").splitlines()]

    good = answered("careful", "good.jsonl")
    assert len(good) == 30
    assert {row["outcome"] for row in good} == {"passed"}
    assert all(row["response"].startswith("Passage") for row in good)  # the engine's own, not the stored one
    at("gate", "good.jsonl", "--baseline", "baseline.json", "--update-baseline")
    assert "passed" in at("gate", "good.jsonl", "--baseline", "baseline.json")
    answered("careless", "bad.jsonl")
    found = at.json("gate", "bad.jsonl", "--baseline", "baseline.json", expect=EXIT_FAILED)["gate"]
    assert {check["kind"]: check["decided"] for check in found["checks"]} == {
        "minimum": "failed", "max_drop": "failed", "latency": "passed",
    }  # fmt: skip
    drop = next(check for check in found["checks"] if check["kind"] == "max_drop")
    assert drop["cases"] == 30
    assert all(case.startswith("q-") for case in drop["changed"])
