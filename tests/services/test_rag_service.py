"""The SDK where it belongs: in a RAG service with forked workers, on a broker that goes away in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.intakes import KafkaTestQueue, new_group
from tests.support.kafka.process import GuardedProcess
from tests.support.kafka_broker import KafkaBroker
from tests.support.rag_load import Answers, Load, side_by_side
from tests.support.rag_service import WORKER_HEADER
from tests.support.running_pipeline import quick_limits
from tests.support.scripted_panel import ScriptedPanel
from tracejudge.sampling import SamplingPolicy
from tracejudge.store import Store, TraceFilter
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_sdk import Trace, TraceClient

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

WORKERS = 4
PER_PHASE = 120
# The broker is away for about five seconds: a send then has to be found failed and tried again within the test.
QUICK_KAFKA = {"delivery_timeout_ms": 3000, "request_timeout_ms": 1500, "bootstrap_timeout_ms": 2000}


@contextlib.contextmanager
def service(folder: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, GuardedProcess]]:
    """gunicorn with preloaded, forked uvicorn workers on a free port of loopback; its URL once it answers."""
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        "/usr/bin/env", *(f"{name}={value}" for name, value in {**environ, "WORKER_FOLDER": str(folder)}.items()),
        sys.executable, "-m", "gunicorn", "tests.support.rag_service:app", "--preload", "--workers", str(WORKERS),
        "--worker-class", "uvicorn_worker.UvicornWorker", "--bind", f"127.0.0.1:{port}", "--graceful-timeout", "40",
    ]  # fmt: skip
    process = GuardedProcess(command, folder / "service.log")
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while not _answers(url):
            said = (folder / "service.log").read_text()
            assert process.exit_status is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.1)
        yield url, process
    finally:
        process.kill()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/openapi.json", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def _stop(process: GuardedProcess, folder: Path) -> dict[str, dict[str, Any]]:
    """Asks the service to end, as a deployment does; gives what each worker's client counted, by process id."""
    assert process.stop(60), (folder / "service.log").read_text()
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def test_every_answer_of_four_forked_workers_is_stored_once_or_counted(
    restartable_kafka_broker: KafkaBroker,
    kafka_topic: str,
    store: Store,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = restartable_kafka_broker
    environ = {
        "TRACEJUDGE_QUEUE": f"kafka://{broker.bootstrap}/{kafka_topic}",
        "TRACEJUDGE_APP": "shop",
        "TRACEJUDGE_QUEUE_OPTIONS": json.dumps(QUICK_KAFKA),
        "TRACEJUDGE_EXIT_TIMEOUT_S": "20",
        "TRACEJUDGE_SPOOL": str(tmp_path / "spool"),
    }
    killed = ""
    with (
        service(tmp_path / "without", {}) as (bare, bare_process),
        service(tmp_path / "with", environ) as (url, process),
    ):
        without, with_sdk = Answers(bare), Answers(url)
        load = Load(without, with_sdk)

        async def run() -> None:
            nonlocal killed
            # The first trace of a worker imports the Kafka client: seen by itself.
            await load.phase("first requests", 80)
            await load.phase("broker up", PER_PHASE)
            await _meanwhile(load, "broker stopping", broker.stop)
            await load.phase("broker down", PER_PHASE)
            killed = await _kill_a_worker(url)
            await _meanwhile(load, "broker starting", broker.start)
            await load.phase("broker up again", PER_PHASE)

        asyncio.run(run())
        counts = _stop(process, tmp_path / "with")
        _stop(bare_process, tmp_path / "without")

    # What is left on disk goes with the next process that logs there.
    with TraceClient.from_env(environ) as client:
        client.log(trace_id="ask-999999", query="the next process")
        assert client.flush(30)

    # From outside: which worker answered which trace, and what is in the store.
    answered = Counter(with_sdk.workers.values())
    assert len(answered) >= WORKERS
    traces = _stored(store, KafkaTestQueue(broker.bootstrap, kafka_topic))
    stored = Counter(trace.trace_id for trace in traces)
    arrived = {trace.trace_id: trace for trace in traces}
    with capsys.disabled():
        print(f"\n{side_by_side(without, with_sdk)}\n{_table(answered, counts, with_sdk, stored)}")

    # Killed with everything on its disk, while the broker was away: nothing of it is missing.
    assert all(stored[trace_id] for trace_id, by in with_sdk.workers.items() if by == killed)
    assert set(counts) >= set(answered) - {killed}
    for worker, count in counts.items():
        own = {trace_id for trace_id, by in with_sdk.workers.items() if by == worker}
        assert count["logged"] == len(own)
        dropped = sum(count["dropped"].values())
        assert count["logged"] == count["sent"] + count["queued"] + count["spooled"] + dropped
        assert count["queued"] == 0
        missing = [trace_id for trace_id in own if stored[trace_id] == 0]
        # A trace whose confirmation got lost with the broker is counted and may be there all the same.
        assert len(missing) <= dropped
        assert {arrived[trace_id].tags["worker"] for trace_id in own & set(arrived)} == {worker}
    assert set(stored) <= {*with_sdk.workers, "ask-999999"}
    assert max(stored.values()) == 1
    # The broker came back in time, so nothing had to be given up.
    assert sum(stored.values()) == len(with_sdk.workers) + 1
    for trace_id, status in with_sdk.expected.items():
        trace = arrived[trace_id]
        assert status in ("any", trace.status), trace_id
        assert [node.node_id for node in trace.source_nodes] == [
            f"{trace.query.split()[2].lower().rstrip(',')}-{number}" for number in (1, 2)
        ]
        assert trace.response is None if trace.status == "error" else (trace.response or "").startswith("piece 0 ")


async def _kill_a_worker(url: str) -> str:
    """kill -9 to the worker that answers first, once its client holds nothing in memory any more; its process id."""
    chosen = ""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        # A connection of its own each time: workers take connections, not requests.
        async with httpx.AsyncClient() as client:
            got = await client.get(f"{url}/counts")
        worker, counts = got.headers[WORKER_HEADER], got.json()
        chosen = chosen or (worker if counts["spooled"] else "")
        if worker == chosen and counts["queued"] == 0:
            os.kill(int(worker), signal.SIGKILL)
            return chosen
        await asyncio.sleep(0.02)
    raise AssertionError("no worker has put its traces on disk")


async def _meanwhile(load: Load, phase: str, work: Any) -> None:
    """Asks on until the work, done in a thread, is over."""
    working = asyncio.create_task(asyncio.to_thread(work))
    while not working.done():
        await load.phase(phase, 20)
    await working


def _stored(store: Store, queue: KafkaTestQueue) -> list[Trace]:
    """Every row of the store after the consumer has read the topic to its end."""
    pipeline = Pipeline(
        intake=queue.reader(new_group()),
        store=store,
        panel=ScriptedPanel(),
        policy=SamplingPolicy(),
        limits=quick_limits(batch_records=200),
    )
    pipeline.run(until_idle=True)
    return [row.trace for batch in store.traces.stream(TraceFilter(app="shop")) for row in batch]


def _table(answered: Counter[str], counts: Mapping[str, Any], load: Answers, stored: Counter[str]) -> str:
    lines = [f"{'worker':<10}{'answered':>10}{'logged':>8}{'sent':>8}{'spooled':>9}{'dropped':>9}{'stored':>8}"]
    for worker in sorted(answered):
        there = sum(stored[trace_id] for trace_id, by in load.workers.items() if by == worker)
        figures = f"{'killed':>34}"
        if (count := counts.get(worker)) is not None:
            dropped = sum(count["dropped"].values())
            figures = f"{count['logged']:>8}{count['sent']:>8}{count['spooled']:>9}{dropped:>9}"
        lines.append(f"{worker:<10}{answered[worker]:>10}{figures}{there:>8}")
    return "\n".join(lines)
