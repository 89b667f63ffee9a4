"""The labelled sets under three judges: `compare` finds what was planted, inside its intervals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.judge_reply import JudgeRequest, Reply, uniform
from tests.support.judge_server import JudgeServer
from tests.support.workplace import Workplace
from tracejudge.datasets import Line, demo_lines
from tracejudge.store import Store, StoredTrace
from tracejudge.testing.builders import START

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

SEED = 5  # one draw; how often the intervals hold what was planted is simulated in the unit tests of compare
PLANTED = {"strict": (0.80, 0.95), "mild": (0.97, 0.70)}  # sensitivity, specificity


@pytest.fixture
def lines() -> list[Line]:
    """The labelled set that ships, each question with its number, by which the scripted judges know it."""
    labelled = [line for line in demo_lines() if line.labels]
    return [
        replace(line, trace=line.trace.model_copy(update={"query": f"{line.trace.query} [question {number}]"}))
        for number, line in enumerate(labelled)
    ]


@pytest.fixture
def server(lines: list[Line]) -> Iterator[JudgeServer]:
    def script(request: JudgeRequest) -> Reply:
        found = re.findall(r"\[question (\d+)\]", request.prompt)
        number = int(found[-1])
        good = lines[number].labels[0].value >= 0.5
        sensitivity, specificity = PLANTED[request.model]
        right = uniform(SEED, request.model, number) < (sensitivity if good else specificity)
        return Reply("YES" if good == right else "NO")

    with JudgeServer(script, models=tuple(PLANTED)) as running:
        yield running


@pytest.fixture
def at(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    store_url: str,
    store: Store,
    server: JudgeServer,
    lines: list[Line],
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    judges = "".join(
        f'[[judges]]\nname = "{name}"\nkind = "faithfulness"\nbase_url = "{server.base_url}"\nmodel = "{name}"\n'
        "max_calls_per_h = 100000\nusd_per_million_input_tokens = 1.0\nusd_per_million_output_tokens = 1.0\n\n"
        for name in PLANTED
    )
    settings = f'queue = "sqlite:///q.db"\nstore = "{store_url}"\n\n[[judges]]\nname = "lexical"\nkind = "lexical"\n\n'
    (tmp_path / "tracejudge.toml").write_text(settings + judges, encoding="utf-8")
    store.traces.insert([StoredTrace(trace=line.trace, ingested_at=START) for line in lines])
    store.labels.insert([label for line in lines for label in line.labels])
    return Workplace(tmp_path, capsys, settings)


def test_compare_recovers_what_was_planted(at: Workplace, lines: list[Line]) -> None:
    for judge in ("lexical", *PLANTED):
        replayed = at.json("replay", "--judge", judge, "--run", judge)
        assert replayed["complete"]
        assert replayed["invalid"] == 0
    found = at.json("compare", "strict", "mild")["comparison"]
    for side, name in (("a", "strict"), ("b", "mild")):
        labelled = found[side]["labelled"]
        for estimate, planted in zip((labelled["sensitivity"], labelled["specificity"]), PLANTED[name], strict=True):
            assert estimate["low"] <= planted <= estimate["high"]
        assert labelled["counts"]["good_passed"] + labelled["counts"]["good_failed"] > 50
    difference = found["agreement"]["difference"]
    assert difference["low"] > 0  # the mild one passes more
    kappa = found["agreement"]["kappa"]
    assert kappa["low"] <= kappa["value"] <= kappa["high"]
    heuristic = at.json("compare", "lexical", "strict")["comparison"]
    assert heuristic["a"]["heuristic"] is True
    balanced = heuristic["a"]["labelled"]["balanced"]
    assert balanced["low"] > 0.5  # better than not looking
    assert "Agreement with human labels" in at("compare", "lexical", "mild")
