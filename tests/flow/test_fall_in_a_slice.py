"""Labelled answers through queue, consumer, store and alert loop: one alert, with its slice and start."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.support.labelled_stream import STEP, labelled_stream
from tests.support.records import append
from tests.support.workplace import Workplace
from tracejudge_sdk.trace import Trace

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")


def test_a_fall_in_one_category_fires_once_with_its_slice_and_start_and_resolves(
    tmp_path: Path, store_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracejudge.store.leases.SETTLE_S", 0.005)
    settings = (
        f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n[alert_loop]\nsettle_s = 0\n'
        '[alerts]\nevidence_dir = "pages"\n'
        '[[rules]]\nname = "faithful"\njudge = "lexical"\nminimum = 0.85\n'
    )
    (tmp_path / "tracejudge.toml").write_text(settings, encoding="utf-8")
    at = Workplace(tmp_path, capsys, settings)
    start = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=15)
    healthy, fallen, recovered = labelled_stream(start, [(380, True), (120, False), (300, True)])

    def served(traces: list[Trace]) -> str:
        append(tmp_path / "queue.db", traces)
        report = at.json("consume", "--until-idle")
        assert (report["records"], report["dead_letters"]) == (len(traces), {})
        return at("watch", "--once")

    assert "firing" not in served(healthy), "the healthy stretch is silent"
    assert served(fallen).count("firing") == 1
    assert "resolved" in served(recovered)

    events = at.json("alerts")["events"]
    assert [event["kind"] for event in reversed(events)] == ["firing", "resolved"]
    told = events[-1]["evidence"]
    first, *others = told["slices"]["standing_out"]
    assert (first["attribute"], first["value"], first["kind"]) == ("category", "general", "within")
    assert {(one["attribute"], one["value"]) for one in others} <= {("language", "en")}
    began = datetime.fromisoformat(told["started_about"])
    assert abs(began - fallen[0].event_time) < 20 * STEP
    ids = {trace.trace_id for trace in fallen if trace.category == "general"}
    assert len(told["worst_trace_ids"]) == 5
    assert set(told["worst_trace_ids"]) <= ids
    shown = at("alerts", "show", events[-1]["event_id"])
    assert "category general fell from" in shown
    assert (tmp_path / "pages" / f"{events[-1]['event_id']}.html").exists()
