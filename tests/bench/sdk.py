"""What logging costs a service, beside Langfuse and OpenTelemetry; and what it costs when the queue is not there.

    python -m tests.bench.sdk [--quick] [--json] [--only hot,down,memory,peers_down]

`hot`: one trace of five source nodes of 800 characters, 500 a second, timed in the calling thread, each client in a
process of its own, in turns, so that every ratio comes from one round. The queue is a real Kafka broker where Java and
Maven are there, a SQLite log otherwise. CPU is that of the whole process until everything is sent, with the harness's
own loop subtracted. The peers send to a server on loopback that takes everything.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.bench.frame import Figure, Run, at_most, exactly, main, shown
from tests.bench.sdk_environments import ROOT, python_of, variables
from tests.bench.sdk_sinks import accepting_server, closed_port, silent_port
from tests.support.kafka_broker import KafkaBroker, broker_or_reason

CAP_BYTES: Final = 32 * 1024 * 1024
EXIT_S: Final = 2.0
RATE: Final = 500


def hot(run: Run) -> Iterator[Figure]:
    """Promise 1: never in the way."""
    rounds, count = run.pick(9, 3), run.pick(1500, 600)
    with contextlib.ExitStack() as stack:
        http = stack.enter_context(accepting_server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = broker_or_reason()
        sqlite = f"sqlite:///{folder}/queue.db"
        if isinstance(broker, str):
            print(f"... no Kafka broker ({broker}): the queue is a SQLite log", file=sys.stderr)
            queue, name = sqlite, "SQLite"
        else:
            stack.enter_context(broker)
            queue, name = f"kafka://{broker.bootstrap}/{broker.create_topic('bench')}", "Kafka"
        clients = {
            "nothing": ("peers", "nothing", {}),
            "langfuse": ("peers", "langfuse", {"http": http}),
            "otel": ("peers", "opentelemetry", {"http": http}),
            "fast": ("fast", "tracejudge", {"queue": queue}),
            "base": ("base", "tracejudge", {"queue": queue}),
            "sqlite": ("fast", "tracejudge", {"queue": sqlite}),
            "spool": ("fast", "tracejudge", {"queue": queue, "spool": str(folder / "spool")}),
        }
        found: dict[str, list[dict[str, Any]]] = {client: [] for client in clients}
        for number in range(rounds):
            print(f"... round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for client, (environment, kind, options) in clients.items():
                found[client].append(_child(environment, kind, {**options, "count": count, "rate": RATE}))

    def ratios(ours: str, peer: str, what: str) -> list[float]:
        return [mine[what] / theirs[what] for mine, theirs in zip(found[ours], found[peer], strict=True)]

    def cpu(ours: str) -> list[float]:
        rows = zip(found[ours], found["langfuse"], found["nothing"], strict=True)
        return [(mine["cpu"] - loop["cpu"]) / (theirs["cpu"] - loop["cpu"]) for mine, theirs, loop in rows]

    yield at_most(f"log() p50 / Langfuse p50 ({name}, [fast])", ratios("fast", "langfuse", "p50"), 0.10)
    yield at_most("log() p50 / OpenTelemetry p50", ratios("fast", "otel", "p50"), 0.30)
    yield at_most("log() p99 / Langfuse p99", ratios("fast", "langfuse", "p99"), 0.15)
    yield at_most("process CPU a trace / Langfuse's", cpu("fast"), 0.35)
    for client, label in (("base", "base install"), ("sqlite", "SQLite log"), ("spool", "with a spool on disk")):
        yield shown(f"{label}: p50 / Langfuse p50", ratios(client, "langfuse", "p50"))
        yield shown(f"{label}: p99 / Langfuse p99", ratios(client, "langfuse", "p99"))
        yield shown(f"{label}: process CPU a trace / Langfuse's", cpu(client))
    for client in ("langfuse", "otel", "fast", "base"):
        yield shown(f"{client}: p50", [row["p50"] for row in found[client]], unit="us")
        yield shown(f"{client}: p99", [row["p99"] for row in found[client]], unit="us")
    yield shown("log() p50 / floor p50", [row["p50"] / row["floor_p50"] for row in found["fast"]])
    worst = max(abs(row["end"]["missing"]) for client in ("fast", "base") for row in found[client])
    yield exactly("traces missing from the account", worst, 0)


def down(run: Run) -> Iterator[Figure]:
    """Promise 2: the queue is closed, silent, or slow to die, and the service does not notice."""
    rounds, count = run.pick(7, 3), run.pick(1000, 400)
    common = {"count": count, "rate": RATE, "exit": EXIT_S}
    with tempfile.TemporaryDirectory() as folder, silent_port() as silent:
        queues = {
            "closed port": f"kafka://127.0.0.1:{closed_port()}/bench",
            "silent port": f"kafka://127.0.0.1:{silent}/bench",
            "gateway at a closed port": f"http://127.0.0.1:{closed_port()}",
        }
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in queues}
        healthy: list[dict[str, Any]] = []
        for _ in range(rounds):
            healthy.append(_child("fast", "tracejudge", {**common, "queue": f"sqlite:///{folder}/queue.db"}))
            for name, queue in queues.items():
                found[name].append(_child("fast", "tracejudge", {**common, "queue": queue, "cold": 1}))
    for name, rows in found.items():
        yield at_most(f"{name}: construction", [row["construction_s"] for row in rows], 0.5, unit="s")
        ratios = [row["p50"] / well["p50"] for row, well in zip(rows, healthy, strict=True)]
        yield at_most(f"{name}: log() p50 / healthy p50", ratios, 1.5)
        yield at_most(f"{name}: exit above its limit of {EXIT_S:g} s", [row["exit_s"] - EXIT_S for row in rows], 0.5)
        yield exactly(f"{name}: traces missing from the account", _worst(rows), 0)
    yield shown("import tracejudge_sdk", [row["import_s"] for row in healthy], unit="s")


def memory(run: Run) -> Iterator[Figure]:
    """Promise 2: bytes stay below the cap and resident memory near it, with what the client library copies."""
    rounds, count = run.pick(3, 1), run.pick(20_000, 8_000)
    common = {"cap": CAP_BYTES, "exit": EXIT_S, "flood": count, "stay": 3}
    found: dict[str, list[dict[str, Any]]] = {"closed port": []}
    for _ in range(rounds):
        found["closed port"].append(_child("fast", "tracejudge", {**common, "queue": _closed()}))
    broker = broker_or_reason()
    if isinstance(broker, KafkaBroker) and broker.owned:
        with broker:
            found["broker that stalls"] = []
            for number in range(rounds):
                queue = f"kafka://{broker.bootstrap}/{broker.create_topic(f'stall-{number}')}"
                found["broker that stalls"].append(
                    _child("fast", "tracejudge", {**common, "queue": queue, "warm": 1}, when_warm=broker.pause)
                )
                broker.resume()
    for name, rows in found.items():
        yield at_most(f"{name}: accounted bytes / cap", [row["accounted"] / CAP_BYTES for row in rows], 1.0)
        limit = (2 * CAP_BYTES + 30_000_000) / 1e6
        yield at_most(f"{name}: resident growth", [row["resident"] / 1e6 for row in rows], limit, unit="MB")
        yield shown(f"{name}: resident growth / cap", [row["resident"] / CAP_BYTES for row in rows])
        yield exactly(f"{name}: traces missing from the account", _worst(rows), 0)
        yield at_most(f"{name}: exit above its limit", [row["exit_s"] - EXIT_S for row in rows], 0.5, unit="s")


def peers_down(run: Run) -> Iterator[Figure]:
    """What the peers do at a closed port, for comparison."""
    options = {"http": f"http://127.0.0.1:{closed_port()}", "count": run.pick(500, 200), "rate": RATE, "cold": 1}
    for peer in ("langfuse", "opentelemetry"):
        row = _child("peers", peer, options)
        yield shown(f"{peer} at a closed port: exit", [row["exit_s"]], unit="s")
        yield shown(f"{peer} at a closed port: p50", [row["p50"]], unit="us")


def _closed() -> str:
    return f"kafka://127.0.0.1:{closed_port()}/bench"


def _worst(rows: list[dict[str, Any]]) -> float:
    return max(abs(float(row["end"]["missing"])) for row in rows)


def _child(environment: str, client: str, options: dict[str, Any], *, when_warm: Any = None) -> dict[str, Any]:
    """What one process of the client printed, with how long it took to end."""
    command = [python_of(environment), "-W", "ignore", "-m", "tests.bench.sdk_child", client]
    process = subprocess.Popen(
        [*command, *(f"{name}={value}" for name, value in options.items())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=variables(),
    )
    try:
        if when_warm is not None:
            assert process.stdout is not None
            if process.stdout.readline() != "warm\n":
                raise RuntimeError(f"{client} did not get warm: {process.communicate(timeout=60)[1][-2000:]}")
            when_warm()
        out, errors = process.communicate("\n", timeout=180)
    except BaseException:  # Ctrl-C too: no child outlives the bench
        process.kill()
        process.wait()
        raise
    ended = time.time()
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if process.returncode != 0 or not rows:
        raise RuntimeError(f"{client} in {environment} ended with {process.returncode}: {errors[-2000:]}")
    found: dict[str, Any] = {}
    for row in rows:
        found.update(row)
    found["exit_s"] = ended - found["ended_at"]
    return found


CASES: Final = {"hot": hot, "down": down, "memory": memory, "peers_down": peers_down}

if __name__ == "__main__":
    sys.exit(main("sdk", CASES))
