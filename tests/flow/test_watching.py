"""The watch over a running consumer: a reading that has stalled is told, texts are in no log, heartbeats are sent."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.support.memory_store import MemoryStore
from tests.support.records import append, intake
from tests.support.running_gateway import free_port
from tests.support.running_pipeline import Running, make_pipeline
from tests.support.scripted_panel import ScriptedPanel
from tests.support.switch import Switch
from tracejudge.alerts.event import AlertEvent
from tracejudge.errors import StoreUnavailable
from tracejudge.store import Store
from tracejudge.testing import make_trace
from tracejudge_consumer.commands.watch import run_alert_loop
from tracejudge_consumer.intake import RawRecord
from tracejudge_consumer.intake.sqlite import SqliteIntake
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.watched import Watch
from tracejudge_consumer.wiring import build_alert_loop

CANARY = "CANARY-7f3a"


class LostIntake:
    """A client that has lost its way: it polls on, and is given nothing while `lost` is set."""

    def __init__(self, inner: SqliteIntake) -> None:
        self._inner = inner
        self.lost = threading.Event()
        self.polled_lost = threading.Event()

    def poll(self, *, timeout_s: float, max_records: int) -> list[RawRecord]:
        if self.lost.is_set():
            self.polled_lost.set()
            threading.Event().wait(timeout_s)
            return []
        return self._inner.poll(timeout_s=timeout_s, max_records=max_records)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def eventually(fact: Callable[[], bool]) -> bool:
    """Whether it becomes true within a bound that is never waited for."""
    for _ in range(3000):
        if fact():
            return True
        threading.Event().wait(0.01)
    return False


def test_a_consumer_whose_client_has_lost_its_way_says_so_and_takes_it_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "queue.db"
    append(path, [make_trace(number) for number in range(10)])
    lost = LostIntake(intake(path))
    store = MemoryStore()
    limits = {"lag_interval_s": 0.01, "stall_after_s": 0.1}
    pipeline = make_pipeline(path, store, ScriptedPanel(), intake=lost, limits=limits)
    health: Health = pipeline.health
    with Running(pipeline) as running, caplog.at_level(logging.INFO):
        assert eventually(lambda: len(store.scores.rows) == 10)
        assert eventually(lambda: health.report().ready)
        lost.lost.set()
        assert lost.polled_lost.wait(30)
        append(path, [make_trace(number) for number in range(10, 13)])
        assert eventually(lambda: not health.report().live)
        assert "3 records wait" in health.report().reasons[0]
        assert pipeline.metrics.registry.get_sample_value("tracejudge_stalled") == 1
        assert health.withheld() is not None
        lost.lost.clear()
        assert eventually(lambda: len(store.scores.rows) == 13)
        assert eventually(lambda: health.report().live)
        running.stop()
    assert sum("reading has stalled" in message for message in caplog.messages) == 1
    assert "reading goes on" in caplog.messages


def test_json_logs_at_their_loudest_hold_ids_and_no_text(tmp_path: Path) -> None:
    """Every text of every record holds a mark, a judge raises it, and unreadable records consist of it."""
    (tmp_path / "judge_of_tests.py").write_text(
        "from llama_index.core.evaluation import BaseEvaluator\n"
        "class Raises(BaseEvaluator):\n"
        "    def _get_prompts(self): return {}\n"
        "    def _update_prompts(self, prompts): pass\n"
        "    async def aevaluate(self, query=None, response=None, contexts=None, **kwargs):\n"
        "        raise ValueError(f'cannot judge {query} {response} {contexts}')\n"
    )
    (tmp_path / "tracejudge.toml").write_text(
        'queue = "sqlite:///queue.db"\nstore = "chdb:///store"\nlog_level = "DEBUG"\nlog_format = "json"\n'
        '[[judges]]\nname = "lexical"\nkind = "lexical"\n'
        '[[judges]]\nname = "raises"\nkind = "judge_of_tests:Raises"\ncalls_model = false\n'
    )
    text = f"{CANARY} the limit is ten users"
    fields: dict[str, Any] = {
        "query": text, "response": text, "error": text, "reference": text, "category": CANARY, "tags": {"a": text},
        "source_nodes": [{"node_id": "n", "text": text, "metadata": {"m": text}}],
        "history": [{"role": "user", "content": text}],
    }  # fmt: skip
    unreadable = [CANARY.encode(), json.dumps({"schema_version": 1, "kind": "trace", "query": {"x": CANARY}}).encode()]
    append(tmp_path / "queue.db", [make_trace(1, **fields), make_trace(2, **fields), *unreadable])
    done = subprocess.run(
        [sys.executable, "-m", "tracejudge_consumer.cli", "consume", "--until-idle"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert CANARY not in done.stderr + done.stdout
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    about = [(line.get("trace_id"), line.get("judge"), line.get("reason")) for line in lines if "reason" in line]
    assert {("t-000001", "raises", "judge_error"), ("t-000002", "raises", "judge_error")} <= set(about)
    dead = [(line["partition"], line["offset"], line["reason"]) for line in lines if "offset" in line]
    assert dead == [(0, 2, "not_json"), (0, 3, "invalid_field")]


def test_an_alert_loop_that_leads_is_ready_is_heard_of_and_is_not_any_more_when_the_store_goes(
    store: Store, store_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "tracejudge.toml"
    watch, stop = Watch(alert_loop=True), threading.Event()
    assert watch.loop_health is not None
    health = watch.loop_health
    with Switch() as switch:
        path.write_text(
            f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n[metrics]\nport = {free_port()}\n'
            f'[heartbeat]\nalert_loop = "{switch.url}"\ninterval_s = 1\nallow_private = true\n'
        )
        settings = load_settings(path)
        loop = build_alert_loop(settings, store, health=health)
        tick = loop.tick
        away = threading.Event()

        def sometimes() -> list[AlertEvent]:
            if away.is_set():
                raise StoreUnavailable("scripted to be away")
            return tick()

        loop.tick = sometimes  # type: ignore[method-assign]
        thread = threading.Thread(
            target=run_alert_loop,
            args=(loop, stop),
            kwargs={"tick_s": 0.02, "tell": lambda event: None, "watch": watch},
        )
        with watch.over(settings):
            thread.start()
            try:
                assert switch.asked.wait(30)
                assert health.report().leading
                with urlopen(f"http://127.0.0.1:{settings.metrics.port}/ready", timeout=30) as answer:
                    assert json.load(answer)["alert_loop"]["leading"]
                away.set()
                assert eventually(lambda: not health.report().ready)
                assert "scripted to be away" in (health.withheld() or "")
                assert health.report().live
                away.clear()
                assert eventually(lambda: health.report().ready)
            finally:
                stop.set()
                thread.join(30)
        loop.close()
    assert not health.report().live
    assert watch.registry.get_sample_value("tracejudge_alert_rounds_total", {"result": "broken_off"})
