"""Privacy of a client: no raw text in what is sent, kept on disk, logged or told in statistics."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tracejudge_sdk import ConfigError, Feedback, TraceClient, TransportRejected, TransportUnavailable
from tracejudge_sdk.config import settings_from_env
from tracejudge_sdk.testing import MemoryTransport, records_of, traces_of

SECRET = "jane@example.com"
EVERYWHERE: dict[str, Any] = {
    "query": f"I am {SECRET}",
    "response": {"odd": f"Hello {SECRET}"},
    "status": f"{SECRET} is no status",
    "error": ValueError(SECRET),
    "history": [("user", SECRET)],
    "reference": SECRET,
    "expected_ids": [SECRET],
    "user_id": SECRET,
    "model": SECRET,
    "category": SECRET * 100,
    "tags": {"who": SECRET, SECRET: [SECRET]},
    "source_nodes": [
        SECRET,
        {"node_id": SECRET, "text": SECRET, "metadata": {"a": {"b": {SECRET}}}, "extra": SECRET},
        (SECRET, 0.5),
        object(),
    ],
    "misspelt": SECRET,
    "latency_ms": SECRET,
    "event_time": SECRET,
}


class Odd:
    """What has neither id nor text: its repr goes into the metadata, cut in the middle of an address."""

    def __repr__(self) -> str:
        return "x" * 985 + SECRET


@pytest.mark.parametrize(
    "settings",
    [
        {"redact": ["personal_data"]},
        {"capture_text": False},
        {"allow_fields": ["latency_ms", "source_nodes.score"]},
        {"redact": [lambda text: 1 / 0]},
    ],
    ids=["ready hook", "no text", "allow-list", "broken hook"],
)
def test_nothing_of_it_leaves(
    settings: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    client, kept = _logged(tmp_path, **settings)
    said = caplog.text + repr(client.stats()) + repr(client.settings) + "".join(capfd.readouterr())
    for leaf in (SECRET, "jane", "example.com"):
        assert leaf.encode() not in kept
        assert leaf not in said


def test_without_privacy_it_would_have_been_found(tmp_path: Path) -> None:
    _, kept = _logged(tmp_path)
    assert kept.count(SECRET.encode()) > 20
    assert b"jane@ex...[cut]" in kept


def _logged(folder: Path, **settings: Any) -> tuple[TraceClient, bytes]:
    """A client that logged it all, and every byte that is on disk, its journal included, before and after closing."""
    client = TraceClient(f"sqlite:///{folder / 'queue.db'}", app="shop", **settings)
    client.log(**EVERYWHERE)
    client.log(query="q", source_nodes=[Odd()])
    client.feedback("t", 1.0, f"from {SECRET}")
    assert client.flush(30)
    kept = b"".join(path.read_bytes() for path in folder.iterdir())
    assert client.close(30)
    kept += b"".join(path.read_bytes() for path in folder.iterdir())
    assert client.stats().sent == 3
    return client, kept


def test_nothing_of_it_waits_in_the_spool(tmp_path: Path) -> None:
    transport = MemoryTransport()
    transport.error = TransportUnavailable("down")
    found = {}
    for name, hooks in (("raw", []), ("redacted", ["personal_data"])):
        folder = tmp_path / name
        client = TraceClient(app="shop", transport=transport, spool=folder, redact=hooks)
        client.log(**EVERYWHERE)
        client.close(0.5)
        assert client.stats().spooled == 1
        found[name] = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert SECRET.encode() in found["raw"]
    assert b"jane" not in found["redacted"]


def test_a_failing_hook_is_counted_and_the_rest_of_the_trace_arrives() -> None:
    def hook(text: str) -> str:
        if SECRET in text:
            raise ValueError(text)
        return text

    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, redact=[hook])
    client.log(query=SECRET, response="fine", source_nodes=[SECRET, "passage"])
    client.feedback("t", 1.0, SECRET)
    assert client.close(30)
    trace, feedback = records_of(transport)
    assert (trace.query, trace.response) == ("[redaction failed]", "fine")  # type: ignore[union-attr]
    assert [node.text for node in trace.source_nodes] == ["[redaction failed]", "passage"]  # type: ignore[union-attr]
    assert isinstance(feedback, Feedback)
    assert feedback.comment == "[redaction failed]"
    assert client.stats().notes == {"redaction_failed": 3}


def test_a_hook_that_ends_the_thread_ends_nothing() -> None:
    def hook(text: str) -> str:
        raise SystemExit(text)

    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, redact=[hook])
    client.log(query=SECRET)
    assert client.flush(30)
    client.log(query=SECRET)
    assert client.close(30)
    assert [trace.query for trace in traces_of(transport)] == ["[redaction failed]"] * 2


def test_a_record_that_is_cut_to_fit_was_redacted_before(caplog: pytest.LogCaptureFixture) -> None:
    """Cut first, the address would have lost its end and its form."""
    transport = MemoryTransport(max_record_bytes=2_000)
    client = TraceClient(app="shop", transport=transport, redact=["personal_data"])
    for length in range(900, 1_000):
        client.log(query="q", response="x" * length + f" {SECRET} " + "y" * 2_000)
    assert client.close(30)
    assert all(trace.truncated for trace in traces_of(transport))
    assert not any("jane" in data.decode() for _, data in transport.records)


def test_a_queue_that_refuses_a_record_says_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(MemoryTransport):
        def send(self, records: Sequence[tuple[str, bytes]]) -> None:
            raise TransportRejected("no")

    client = TraceClient(app="shop", transport=Refusing(), redact=["personal_data"])
    client.log(query=SECRET)
    client.close(30)
    assert SECRET not in caplog.text + repr(client.stats())


ENV = {"TRACEJUDGE_QUEUE": "memory://privacy", "TRACEJUDGE_APP": "shop"}


def test_privacy_and_sampling_come_from_the_environment() -> None:
    settings = settings_from_env(
        {
            **ENV,
            "TRACEJUDGE_REDACT": "personal_data, tests.unit.sdk.test_client_privacy:as_hook",
            "TRACEJUDGE_ALLOW_FIELDS": "query,tags.tier",
            "TRACEJUDGE_CAPTURE_TEXT": "false",
            "TRACEJUDGE_HASH_KEY": "a-key-of-sixteen",
            "TRACEJUDGE_ALWAYS_KEEP_ERRORS": "no",
            "TRACEJUDGE_ALWAYS_KEEP_TAGS": '{"tier": ["paid"]}',
        },
        {},
    )
    assert settings.redact == ["personal_data", "tests.unit.sdk.test_client_privacy:as_hook"]
    assert settings.allow_fields == ["query", "tags.tier"]
    assert (settings.capture_text, settings.hash_key, settings.always_keep_errors) == (False, "a-key-of-sixteen", False)
    assert settings.always_keep_tags == {"tier": ["paid"]}
    assert "sixteen" not in repr(settings)


def as_hook(text: str) -> str:
    """Named by the setting above."""
    return text


def test_faults_in_the_environment_are_said_at_once_and_repeat_no_secret() -> None:
    with pytest.raises(ConfigError) as refused:
        settings_from_env(
            {
                **ENV,
                "TRACEJUDGE_CAPTURE_TEXT": "maybe",
                "TRACEJUDGE_HASH_KEY": "tooshort",
                "TRACEJUDGE_REDACT": "persnal_data",
                "TRACEJUDGE_ALLOW_FIELDS": "qery",
            },
            {},
        )
    words = str(refused.value)
    for part in (
        "TRACEJUDGE_CAPTURE_TEXT: 'maybe'",
        "hash_key: is not",
        "redact: 'persnal_data'",
        "'qery' is no field",
    ):
        assert part in words
    assert "tooshort" not in words
