"""`tracejudge doctor` on what stands around the queue: gateway, hook, switches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running_gateway import RunningGateway, free_port
from tests.support.scripted_transport import ScriptedTransport
from tracejudge.anchors import Anchor, AnchorSet
from tracejudge.store import Store
from tracejudge.testing import make_trace
from tracejudge_consumer.commands.doctor import Check, run_checks
from tracejudge_consumer.retry_policy import RetryPolicy
from tracejudge_sdk.transports.sqlite_log import SqliteLog


@pytest.fixture
def gateway() -> Iterator[tuple[RunningGateway, ScriptedTransport]]:
    queue = ScriptedTransport()
    with RunningGateway(lambda: queue, retry=RetryPolicy(first_s=0.01, longest_s=0.02)) as running:
        running.wait_ready()
        yield running, queue


def checks(folder: Path, store_url: str, text: str, queue: str = "sqlite:///queue.db") -> dict[str, Check]:
    path = folder / "tracejudge.toml"
    path.write_text(f'queue = "{queue}"\nstore = "{store_url}"\n{text}')
    return {check.subject: check for check in run_checks(str(path))}


def test_a_damaged_queue_is_one_fault_and_the_rest_is_tried_all_the_same(tmp_path: Path, store_url: str) -> None:
    log = SqliteLog(tmp_path / "queue.db")
    log.append([(b"k", b"v" * 1000, (), 0)] * 100)
    log.close()
    with (tmp_path / "queue.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 40_000)
    found = checks(tmp_path, store_url, "")
    assert found["queue"].status == "FAIL"
    assert "move it away" in found["queue"].detail
    assert found["store"].status == "ok"


def test_a_gateway_that_runs_and_one_that_does_not(
    tmp_path: Path, store_url: str, gateway: tuple[RunningGateway, ScriptedTransport]
) -> None:
    found = checks(tmp_path, store_url, f"[gateway]\nport = {gateway[0].port}\n")
    assert (found["gateway"].status, found["gateway answers"].status) == ("ok", "ok")
    found = checks(tmp_path, store_url, f"[gateway]\nport = {free_port()}\n")
    assert found["gateway answers"].status == "note"
    assert "tracejudge gateway" in found["gateway answers"].fix


def test_a_gateway_that_others_reach_without_a_key_is_a_fault_with_its_fix(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACEJUDGE_INGEST_KEY", raising=False)
    found = checks(tmp_path, store_url, '[gateway]\nhost = "0.0.0.0"\nport = 4380\n')
    assert found["gateway"].status == "FAIL"
    assert "openssl rand" in found["gateway"].fix


def test_a_queue_behind_a_gateway_is_asked_there(
    tmp_path: Path, store_url: str, gateway: tuple[RunningGateway, ScriptedTransport]
) -> None:
    running, queue = gateway
    assert checks(tmp_path, store_url, "", queue=running.url)["queue"].status == "ok"
    queue.down = True
    running.post(b'{"schema_version":1,"kind":"feedback","feedback_id":"f","trace_id":"t","app":"a","value":1,'
                 b'"event_time":"2026-01-01T00:00:00Z"}')  # fmt: skip
    found = checks(tmp_path, store_url, "", queue=running.url)["queue"]
    assert found.status == "FAIL"
    assert "scripted to be down" in found.detail
    queue.down = False


def test_the_hook_is_loaded_and_the_switches_are_not_tried(tmp_path: Path, store_url: str) -> None:
    switch = '[heartbeat]\nconsumer = "https://hc.invalid/SECRET"\n'
    found = checks(tmp_path, store_url, switch + '[intake]\nresolve_nodes = "tests.support.passage_texts:texts"\n')
    assert found["intake"].status == "ok"
    assert "set, not tested" in found["heartbeat"].detail
    assert "SECRET" not in str(found)
    found = checks(tmp_path, store_url, '[intake]\nresolve_nodes = "nowhere:texts"\n')
    assert found["intake"].status == "FAIL"


def test_anchors_that_the_settings_name_and_nobody_built_are_told_with_the_command(
    tmp_path: Path, store_url: str, store: Store
) -> None:
    text = '[anchors]\nset = "golden"\n'
    for url in (store_url, "chdb:///not-there"):
        found = checks(tmp_path, url, text)["anchors"]
        assert (found.status, found.fix) == ("note", "tracejudge anchors build golden")
        assert "'golden' is not built" in found.detail
    store.anchors.freeze(AnchorSet.freeze("golden", [Anchor.of(make_trace(1))], built_at=store.now()))
    found = checks(tmp_path, store_url, text)["anchors"]
    assert (found.status, found.detail) == ("ok", f"{store.anchors.find('golden')} is built")
    assert "anchors" not in checks(tmp_path, store_url, "")


def test_an_embedded_store_that_cannot_be_opened_is_nothing_to_start_and_has_no_password(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    store = checks(tmp_path, "chdb:///store", "")["store"]
    assert store.status == "FAIL"
    assert "is a file, not a folder" in store.detail
    assert store.fix == "fix the error shown, or correct `store`"


def test_a_schema_of_a_newer_release_is_not_to_be_migrated(tmp_path: Path, store_url: str, store: Store) -> None:
    store.command("INSERT INTO schema_migrations (version, name, oldest_reader, release) VALUES (99, 'n', 99, '9.9')")
    try:
        check = checks(tmp_path, store_url, "")["store schema"]
    finally:
        store.command("ALTER TABLE schema_migrations DELETE WHERE version = 99 SETTINGS mutations_sync = 1")
    assert check.status == "FAIL"
    assert "upgrade tracejudge here" in check.detail
    assert "migrate" not in check.fix
