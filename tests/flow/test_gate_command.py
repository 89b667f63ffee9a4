"""`tracejudge gate` after `tracejudge score`, and on a stored run."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tracejudge.anchors import Anchor, AnchorRound, AnchorSet
from tracejudge.anchors import Verdict as Said
from tracejudge.scores import JudgeId
from tracejudge.store import Store
from tracejudge.testing import make_score, make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED, EXIT_UNDECIDED, EXIT_USAGE

SUPPORTED = "The limit of this plan is ten users per account."
THRESHOLDS = '[[thresholds]]\njudge = "lexical"\nminimum = 0.8\nmax_drop = 0.05\n'


def dataset(path: Path, *, bad: int) -> Path:
    """Sixty answers, of which `bad` have nothing to do with their passage."""
    rows = [
        {
            "trace_id": f"case-{number}",
            "query": "What is the limit?",
            "response": "Elephants migrate across continents every winter." if number < bad else SUPPORTED,
            "source_nodes": [SUPPORTED],
        }
        for number in range(60)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scored(path: Path) -> str:
    assert run(["score", str(path), "--judge", "lexical", "--json"]) == EXIT_DONE
    return f"{path}.scores.jsonl"


def test_score_then_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("thresholds.toml").write_text(THRESHOLDS)
    good = scored(dataset(tmp_path / "d.jsonl", bad=2))
    assert run(["gate", good]) == EXIT_USAGE  # max_drop without a baseline: nothing was found to be worse
    assert "needs a baseline" in capsys.readouterr().err
    assert run(["gate", good, "--baseline", "b.json"]) == EXIT_USAGE
    assert "b.json: No such file or directory; write it with" in capsys.readouterr().err
    assert run(["gate", good, "--baseline", "b.json", "--update-baseline"]) == EXIT_DONE
    assert run(["gate", good, "--baseline", "b.json", "--junit", "g.xml", "--markdown", "g.md"]) == EXIT_DONE
    assert "lexical (heuristic) at least 80 %" in capsys.readouterr().out
    assert 'failures="0"' in Path("g.xml").read_text()
    assert Path("g.md").read_text().startswith("### tracejudge gate: passed")

    # Another release answers the same questions worse.
    worse = scored(dataset(tmp_path / "worse.jsonl", bad=25))
    capsys.readouterr()
    assert run(["gate", worse, "--baseline", "b.json", "--json"]) == EXIT_FAILED
    result: Any = json.loads(capsys.readouterr().out)["gate"]
    assert [check["decided"] for check in result["checks"]] == ["failed", "failed"]
    assert len(result["checks"][1]["changed"]) == 23
    assert run(["gate", worse, "--baseline", "b.json"]) == EXIT_FAILED
    assert "and 13 more" in " ".join(capsys.readouterr().out.split())
    other = tmp_path / "other.jsonl"
    other.write_text("".join(Path("d.jsonl").read_text().splitlines(keepends=True)[:-1]))
    assert run(["gate", scored(other), "--baseline", "b.json"]) == EXIT_FAILED
    assert "of another dataset" in capsys.readouterr().err

    Path("thresholds.toml").write_text("min_cases = 500\n" + THRESHOLDS)
    assert run(["gate", good, "--baseline", "b.json"]) == EXIT_UNDECIDED
    Path("thresholds.toml").write_text('[[thresholds]]\njudge = "lexical"\nminimum = 80\n')
    assert run(["gate", good]) == EXIT_USAGE
    assert "thresholds[0].minimum" in capsys.readouterr().err
    assert run(["gate"]) == EXIT_USAGE
    assert run(["gate", good, worse]) == EXIT_USAGE
    (tmp_path / "none.jsonl").write_text("")
    Path("thresholds.toml").write_text(THRESHOLDS)
    assert run(["gate", "none.jsonl"]) == EXIT_UNDECIDED
    assert "nothing is decided" in capsys.readouterr().err
    assert run(["gate", str(tmp_path / "d.jsonl")]) == EXIT_USAGE
    assert "has no judge_id" not in (said := capsys.readouterr().err)
    assert "not the dataset" in said


def test_several_runs_and_anchors_make_a_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("thresholds.toml").write_text('[[thresholds]]\njudge = "lexical"\nmax_drop = "noise"\n')
    runs = [scored(dataset(tmp_path / f"{bad}.jsonl", bad=bad)) for bad in (2, 3, 2)]
    anchors = scored(dataset(tmp_path / "anchors.jsonl", bad=30))
    capsys.readouterr()
    assert run(["gate", *runs, "--anchors", anchors, "--baseline", "b.json", "--update-baseline"]) == EXIT_DONE
    assert "180 verdicts of 3 runs, 60 of anchors" in capsys.readouterr().out
    assert run(["gate", runs[1], "--anchors", anchors, "--baseline", "b.json"]) == EXIT_DONE
    shown = capsys.readouterr().out
    assert "lexical (heuristic) judges the anchors as before" in shown
    assert "within the noise of the baseline" in " ".join(shown.split())
    worse = scored(dataset(tmp_path / "worse.jsonl", bad=12))
    assert run(["gate", worse, "--anchors", anchors, "--baseline", "b.json"]) == EXIT_FAILED
    assert run(["gate", worse, "--baseline", "b.json"]) == EXIT_FAILED  # the anchors are missing: void


def test_stored_rounds_of_anchors_run_along(
    store: Store,
    store_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tracejudge.toml").write_text(f'queue = "sqlite:///q.db"\nstore = "{store_url}"\n')
    Path("thresholds.toml").write_text(THRESHOLDS)
    good = scored(dataset(tmp_path / "d.jsonl", bad=2))
    judge_id = JudgeId(json.loads(Path(good).read_text().splitlines()[0])["judge_id"])
    frozen = AnchorSet.freeze("shop", [Anchor.of(make_trace(number)) for number in range(60)], built_at=START)
    store.anchors.freeze(frozen)
    assert run(["gate", good, "--anchor-set", "shop", "--baseline", "b.json", "--update-baseline"]) == EXIT_UNDECIDED
    assert "tracejudge anchors run" in capsys.readouterr().err

    def judged(day: int, passed: int, *, done: bool = True) -> None:
        at = START + timedelta(days=day)
        store.anchors.rounds.save(
            AnchorRound(
                set_id=frozen.set_id,
                judge_name="lexical",
                judge_id=judge_id,
                round_at=at,
                cause="schedule",
                finished_at=at if done else None,
                verdicts={case: Said(place < passed) for place, case in enumerate(frozen.case_ids)},
            )
        )

    judged(0, 30)
    assert run(["gate", good, "--anchor-set", "shop", "--baseline", "b.json", "--update-baseline"]) == EXIT_DONE
    assert "60 verdicts, 60 of anchors" in capsys.readouterr().out
    judged(1, 31)
    judged(2, 5, done=False)  # under way: the last finished one counts
    assert run(["gate", good, "--anchor-set", "shop", "--baseline", "b.json"]) == EXIT_DONE
    judged(3, 10)
    assert run(["gate", good, "--anchor-set", "shop", "--baseline", "b.json"]) == EXIT_UNDECIDED
    assert "of 60 anchors" in " ".join(capsys.readouterr().out.split())
    assert run(["gate", good, "--anchor-set", "shop", "--anchors", good, "--baseline", "b.json"]) == EXIT_USAGE


def test_a_stored_run(store: Store, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tracejudge.toml").write_text(f'queue = "sqlite:///q.db"\nstore = "{store_url}"\n')
    Path("thresholds.toml").write_text('[[thresholds]]\njudge = "lexical"\nminimum = 0.8\n')
    store.scores.insert([make_score(number, passed=number >= 50, run_id="nightly") for number in range(100)])
    assert run(["gate", "--run", "nightly"]) == EXIT_FAILED
    assert run(["gate", "--run", "nothing"]) == EXIT_USAGE  # no release has failed
