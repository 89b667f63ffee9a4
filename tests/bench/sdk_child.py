"""One process of the bench `sdk`: logs traces with one client, paced like a service, and prints what that cost as JSON.

    python -m tests.bench.sdk_child CLIENT [key=value ...]

It runs in an environment of the client's own, so it imports the standard library and that client alone. Every call of
the client stands beside one of the floor (a snapshot into a bounded deque read by a thread), in the same loop.
"""

from __future__ import annotations

import atexit
import collections
import json
import logging
import os
import random
import string
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

Log = Callable[[dict[str, Any]], object]
WORK_NS: Final = 100_000  # the service's own work between two traces: the clock is up, the caches are not all ours
POOL: Final = 256


def make_trace(rng: random.Random) -> dict[str, Any]:
    """A query of 100 characters, a response of 600, five source nodes of 800: about 5.4 kB as JSON."""

    def text(length: int) -> str:
        return "".join(rng.choices(string.ascii_lowercase + "     ", k=length))

    def an_id() -> str:
        return str(uuid.UUID(int=rng.getrandbits(128)))

    nodes = [{"node_id": an_id(), "score": rng.random(), "text": text(800)} for _ in range(5)]
    return {"trace_id": an_id(), "query": text(100), "response": text(600), "nodes": nodes}


class Floor:
    """What no client can be cheaper than: a snapshot appended to a bounded deque."""

    def __init__(self) -> None:
        self._queue: collections.deque[object] = collections.deque(maxlen=10_000)
        threading.Thread(target=self._run, daemon=True).start()

    def log(self, trace: dict[str, Any]) -> None:
        nodes = [(node["node_id"], node["score"], node["text"]) for node in trace["nodes"]]
        self._queue.append((trace["trace_id"], trace["query"], trace["response"], nodes))

    def _run(self) -> None:
        while True:
            time.sleep(0.02)
            self._queue.clear()


def _nothing(options: dict[str, str]) -> tuple[Log, Callable[[], object]]:
    return (lambda trace: None), (lambda: None)


def _langfuse(options: dict[str, str]) -> tuple[Log, Callable[[], object]]:
    from langfuse import Langfuse  # type: ignore[import-not-found]

    client = Langfuse(public_key="pk-lf-x", secret_key="sk-lf-x", base_url=options["http"])

    def log(trace: dict[str, Any]) -> None:
        client.start_observation(
            name="rag",
            as_type="span",
            input=trace["query"],
            output=trace["response"],
            metadata={"nodes": trace["nodes"]},
        ).end()

    return log, client.flush


def _opentelemetry(options: dict[str, str]) -> tuple[Log, Callable[[], object]]:
    # Lives in an environment of its own that the bench installs; types are checked without it.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # type: ignore
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=options["http"] + "/v1/traces")))
    tracer = provider.get_tracer("bench")

    def log(trace: dict[str, Any]) -> None:
        attributes = {
            "openinference.span.kind": "CHAIN",
            "input.value": trace["query"],
            "output.value": trace["response"],
        }
        for number, node in enumerate(trace["nodes"]):
            prefix = f"retrieval.documents.{number}.document."
            attributes[prefix + "id"] = node["node_id"]
            attributes[prefix + "score"] = node["score"]
            attributes[prefix + "content"] = node["text"]
        tracer.start_span("rag", attributes=attributes).end()

    return log, provider.force_flush


_OURS: list[Any] = []
_IMPORT_S: list[float] = []


def _tracejudge(options: dict[str, str]) -> tuple[Log, Callable[[], object]]:
    began = time.perf_counter()
    from tracejudge_sdk import TraceClient

    _IMPORT_S.append(time.perf_counter() - began)
    settings: dict[str, Any] = {"spool": options.get("spool"), "exit_timeout_s": float(options.get("exit", "5"))}
    if "cap" in options:
        settings["max_queue_bytes"] = int(options["cap"])
    client = TraceClient(options["queue"], app="bench", **settings)
    _OURS.append(client)

    def log(trace: dict[str, Any]) -> None:
        client.log(query=trace["query"], response=trace["response"], source_nodes=trace["nodes"])

    return log, lambda: client.flush(30.0)


CLIENTS: Final = {
    "nothing": _nothing,
    "langfuse": _langfuse,
    "opentelemetry": _opentelemetry,
    "tracejudge": _tracejudge,
}


def paced(log: Log, traces: list[dict[str, Any]], *, count: int, rate: float) -> dict[str, Any]:
    """Times `count` calls at `rate` a second; microseconds."""
    floor = Floor()
    clock = time.perf_counter_ns
    calls, floors = [], []
    next_at = time.perf_counter()
    for number in range(count):
        next_at += 1 / rate
        if (delay := next_at - time.perf_counter()) > 0:
            time.sleep(delay)
        trace = traces[number % len(traces)]
        until = clock() + WORK_NS
        while clock() < until:
            pass
        if number & 1:
            began = clock()
            floor.log(trace)
            floors.append(clock() - began)
        began = clock()
        log(trace)
        calls.append(clock() - began)
        if not number & 1:
            began = clock()
            floor.log(trace)
            floors.append(clock() - began)
    return {
        "p50": percentile(calls, 0.50) / 1e3,
        "p99": percentile(calls, 0.99) / 1e3,
        "max": max(calls) / 1e3,
        "floor_p50": percentile(floors, 0.50) / 1e3,
    }


def flood(log: Log, *, count: int, text_bytes: int) -> dict[str, Any]:
    """Logs `count` traces of distinct texts as fast as it can, and watches the memory."""
    before = resident_bytes()
    most_resident = most_accounted = 0
    rng = random.Random(7)
    for number in range(count):
        # Texts of their own, or memory would hold one and be accounted for thousands.
        response = rng.randbytes(text_bytes // 2).hex()
        log({"query": f"q{number}", "response": response, "nodes": []})
        if number % 25 == 0:
            most_resident = max(most_resident, resident_bytes() - before)
            most_accounted = max(most_accounted, _OURS[0].stats().queued_bytes)
    return {"resident": most_resident, "accounted": most_accounted}


def account() -> dict[str, Any]:
    """What became of everything, and by how many traces the account is wrong."""
    stats = _OURS[0].stats()
    places = stats.sampled_out + stats.sent + stats.queued + stats.spooled + stats.dropped_total
    return {"logged": stats.logged, "missing": stats.logged - places, "dropped": dict(stats.dropped)}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def percentile(values: list[int], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main(name: str, options: dict[str, str]) -> None:
    logging.disable(logging.CRITICAL)
    rng = random.Random(7)
    traces = [make_trace(rng) for _ in range(POOL)]
    found: dict[str, Any] = {}
    if name == "tracejudge":
        # Registered before the client's own exit handler, so it runs after it.
        atexit.register(lambda: print(json.dumps({"end": account()}), flush=True))
    began = time.perf_counter()
    log, flush = CLIENTS[name](options)
    found["construction_s"] = time.perf_counter() - began - sum(_IMPORT_S)
    found["import_s"] = sum(_IMPORT_S)
    if "flood" in options:
        if options.get("warm"):
            log(traces[0])
            flush()
            print("warm", flush=True)
            sys.stdin.readline()
        found.update(flood(log, count=int(options["flood"]), text_bytes=20_000))
        time.sleep(float(options.get("stay", "0")))
        found["resident"] = max(found["resident"], 0)
    else:
        if not options.get("cold"):
            for trace in traces[:50]:
                log(trace)
            time.sleep(0.5)
        cpu = time.process_time()
        found.update(paced(log, traces, count=int(options["count"]), rate=float(options["rate"])))
        if not options.get("cold"):
            flush()
        found["cpu"] = (time.process_time() - cpu) / int(options["count"]) * 1e6
    found["ended_at"] = time.time()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], dict(argument.split("=", 1) for argument in sys.argv[2:]))
