"""Producers in other languages: what producer_sdk/OTHER_LANGUAGES.md shows, run against a gateway."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.running_gateway import RunningGateway, free_port
from tests.support.scripted_transport import ScriptedTransport
from tracejudge.testing import make_trace
from tracejudge_consumer.retry_policy import RetryPolicy
from tracejudge_sdk import Trace, codec, keep
from tracejudge_sdk.sampling import HEAD_SALT
from tracejudge_sdk.schema import published

SDK = Path(__file__).parents[2] / "producer_sdk"
PRODUCER = SDK / "examples" / "node" / "producer.mjs"
PAGE = (SDK / "OTHER_LANGUAGES.md").read_text(encoding="utf-8")
KEY = "k" * 32


@pytest.fixture
def queue() -> ScriptedTransport:
    return ScriptedTransport()


@pytest.fixture
def gateway(queue: ScriptedTransport) -> Iterator[RunningGateway]:
    with RunningGateway(lambda: queue, keys=[KEY], retry=RetryPolicy(first_s=0.01, longest_s=0.05)) as running:
        running.wait_ready()
        yield running


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed here")
    return found


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


def ids(queue: ScriptedTransport) -> list[str]:
    return [key for key, _ in queue.records]


def run_node(node: str, folder: Path, script: str, **environ: str) -> Any:
    """Runs a module beside the producer and gives the JSON on the last line that it prints."""
    shutil.copy(PRODUCER, folder / "producer.mjs")
    (folder / "script.mjs").write_text(script, encoding="utf-8")
    env = {"PATH": os.environ["PATH"], "TRACEJUDGE_INGEST_KEY": KEY, **environ}
    done = subprocess.run([node, "script.mjs"], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_curl_examples_of_the_page_work_as_they_stand(
    gateway: RunningGateway, queue: ScriptedTransport, tmp_path: Path
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed here")
    naive = codec.encode(make_trace(2)).replace(b"12:00:02Z", b"12:00:02")
    (tmp_path / "answers.jsonl").write_bytes(codec.encode(make_trace(1)) + b"\n" + naive + b"\n")
    commands = examples("sh")
    assert len(commands) == 3
    answers = []
    for command in commands:
        env = {"PATH": os.environ["PATH"], "GATEWAY": gateway.url, "TRACEJUDGE_INGEST_KEY": KEY}
        done = subprocess.run(["bash", "-euc", command], cwd=tmp_path, env=env, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout))
    assert [(one["accepted"], one["refused"]) for one in answers] == [(1, 1), (1, 0), (1, 1)]
    assert ids(queue) == ["t-000001", "t-1", "t-000001"]
    (shown,) = examples("json")
    fault, documented = answers[0]["lines"][1]["faults"][0], json.loads(shown)["lines"][1]["faults"][0]
    assert fault.keys() == documented.keys()
    assert {k: v for k, v in fault.items() if k != "value"} == {k: v for k, v in documented.items() if k != "value"}


def test_the_node_example_of_the_page_works_as_it_stands(
    gateway: RunningGateway, queue: ScriptedTransport, node: str, tmp_path: Path
) -> None:
    (script,) = examples("js")
    script = script.replace("headProbability: 0.25", "headProbability: 1").replace(
        "console.log(tracejudge.stats)", "console.log(JSON.stringify(tracejudge.stats))"
    )
    stats = run_node(node, tmp_path, script, GATEWAY=gateway.url)
    assert (stats["logged"], stats["accepted"], stats["refused"], stats["lastError"]) == (1, 1, 0, None)
    ((key, data),) = queue.records
    trace = codec.decode(data)
    assert isinstance(trace, Trace)
    assert (trace.trace_id, trace.app, trace.query) == (key, "shop", "How many users may a plan have?")
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", key)


def test_the_node_producer_fits_in_sixty_lines_and_needs_nothing_installed() -> None:
    source = PRODUCER.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 60
    imported = re.findall(r'from "([^"]+)"', source)
    assert imported
    assert all(name.startswith("node:") for name in imported)


def test_node_decides_as_the_published_vectors_say(node: str, tmp_path: Path) -> None:
    vectors = published("keep")["vectors"]
    (tmp_path / "vectors.json").write_text(json.dumps(vectors), encoding="utf-8")
    wrong = run_node(
        node,
        tmp_path,
        """
        import { readFileSync } from "node:fs";
        import { keep } from "./producer.mjs";
        const wrong = [];
        for (const { trace_id, salt, kept_at, not_kept_at } of JSON.parse(readFileSync("vectors.json")))
          for (const [probabilities, expected] of [[kept_at, true], [not_kept_at, false]])
            for (const p of probabilities) if (keep(trace_id, p, salt) !== expected) wrong.push([trace_id, salt, p]);
        console.log(JSON.stringify(wrong));
        """,
    )
    assert wrong == []
    assert sum(len(one["kept_at"]) + len(one["not_kept_at"]) for one in vectors) > 100


def test_node_keeps_the_ids_that_python_keeps_and_says_the_share(
    gateway: RunningGateway, queue: ScriptedTransport, node: str, tmp_path: Path
) -> None:
    stats = run_node(
        node,
        tmp_path,
        """
        import { Producer } from "./producer.mjs";
        const producer = new Producer({ url: process.env.GATEWAY, app: "shop", headProbability: 0.25 });
        for (let i = 0; i < 2000; i += 1) producer.log({ trace_id: `質問-${i}`, query: "q", response: "r" });
        await producer.flush();
        console.log(JSON.stringify(producer.stats));
        """,
        GATEWAY=gateway.url,
    )
    expected = [name for name in (f"質問-{i}" for i in range(2000)) if keep(name, 0.25, HEAD_SALT)]
    assert ids(queue) == expected
    assert (stats["accepted"], stats["sampledOut"]) == (len(expected), 2000 - len(expected))
    traces = [codec.decode(data) for _, data in queue.records]
    assert {trace.head_probability for trace in traces if isinstance(trace, Trace)} == {0.25}


def test_node_sends_again_what_was_not_taken_and_counts_what_is_refused(
    queue: ScriptedTransport, node: str, tmp_path: Path
) -> None:
    """The gateway appears late, its queue refuses one record, and one line breaks the contract."""
    queue.refuse = {"refused-by-the-queue"}
    port = free_port()
    shutil.copy(PRODUCER, tmp_path / "producer.mjs")
    (tmp_path / "script.mjs").write_text(
        """
        import { Producer } from "./producer.mjs";
        const producer = new Producer({ url: process.env.GATEWAY, app: "shop", maxQueued: 4 });
        for (const trace_id of ["a", "refused-by-the-queue", "b"]) producer.log({ trace_id, query: "q" });
        producer.log({ trace_id: "c", query: 7 });
        producer.log({ trace_id: "d", query: "one too many" });
        while (producer.stats.lastError === null) await new Promise((go) => setTimeout(go, 5));
        console.log("waiting");
        await producer.flush();
        console.log(JSON.stringify(producer.stats));
        """,
        encoding="utf-8",
    )
    env = {"PATH": os.environ["PATH"], "GATEWAY": f"http://127.0.0.1:{port}", "TRACEJUDGE_INGEST_KEY": KEY}
    process = subprocess.Popen([node, "script.mjs"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        with RunningGateway(lambda: queue, port=port, keys=[KEY]):
            said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    stats = json.loads(said)
    assert {name: stats[name] for name in ("logged", "accepted", "refused", "dropped")} == {
        "logged": 5, "accepted": 2, "refused": 2, "dropped": 1,
    }  # fmt: skip
    assert sorted(ids(queue)) == ["a", "b"]
