"""The settings of a client."""

from __future__ import annotations

from typing import Any

import pytest

from tracejudge_sdk import ClientSettings, ConfigError, TraceClient
from tracejudge_sdk.config import settings_from_env
from tracejudge_sdk.testing import MemoryTransport

ENV = {"TRACEJUDGE_QUEUE": "memory://env", "TRACEJUDGE_APP": "shop"}


def test_two_variables_are_enough() -> None:
    assert settings_from_env(ENV, {}) == ClientSettings(queue="memory://env", app="shop")


def test_every_setting_has_its_variable() -> None:
    settings = settings_from_env(
        {
            **ENV,
            "TRACEJUDGE_ENVIRONMENT": "staging",
            "TRACEJUDGE_VERSION": "v2",
            "TRACEJUDGE_HEAD_PROBABILITY": "0.25",
            "TRACEJUDGE_QUEUE_OPTIONS": '{"synchronous": "FULL"}',
            "TRACEJUDGE_MAX_QUEUE_RECORDS": "10",
            "TRACEJUDGE_MAX_QUEUE_BYTES": "1000",
            "TRACEJUDGE_EXIT_TIMEOUT_S": "1.5",
            "TRACEJUDGE_ENABLED": "yes",
        },
        {},
    )
    assert settings == ClientSettings(
        queue="memory://env",
        app="shop",
        environment="staging",
        version="v2",
        head_probability=0.25,
        queue_options={"synchronous": "FULL"},
        max_queue_records=10,
        max_queue_bytes=1000,
        exit_timeout_s=1.5,
        enabled=True,
    )


def test_a_variable_set_to_nothing_is_not_set() -> None:
    assert settings_from_env({**ENV, "TRACEJUDGE_ENVIRONMENT": " "}, {}).environment == "production"


def test_an_argument_wins_over_its_variable() -> None:
    assert (
        settings_from_env({**ENV, "TRACEJUDGE_HEAD_PROBABILITY": "junk"}, {"head_probability": 1.0, "app": "a"}).app
        == "a"
    )


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from_env(
            {
                "TRACEJUDGE_QUEUE": "kafka://broker",
                "TRACEJUDGE_HEAD_PROBABILITY": "half",
                "TRACEJUDGE_MAX_QUEUE_RECORDS": "0",
                "TRACEJUDGE_ENABLED": "maybe",
                "TRACEJUDGE_QUEUE_OPTIONS": '["s3cret"]',
            },
            {},
        )
    said = str(caught.value)
    for words in (
        "TRACEJUDGE_APP: is not set",
        "TRACEJUDGE_HEAD_PROBABILITY: 'half' is not a number",
        "TRACEJUDGE_ENABLED: 'maybe' is not true or false",
        "TRACEJUDGE_QUEUE_OPTIONS: its value is not a JSON object",
        "kafka://HOST:PORT/TOPIC",
        "max_queue_records: 0",
    ):
        assert words in said
    assert "s3cret" not in said


def test_switched_off_it_needs_nothing_and_logs_nothing() -> None:
    client = TraceClient.from_env({"TRACEJUDGE_ENABLED": "false"})
    assert client.log(query="q")
    assert client.stats().dropped == {"disabled": 1}
    assert client.close()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"app": ""}, "app: ''"),
        ({"app": "x" * 257}, "256 characters"),
        ({"app": 5}, "app: 5"),
        ({"environment": ""}, "environment: ''"),
        ({"head_probability": 1.1}, "head_probability: 1.1"),
        ({"head_probability": True}, "head_probability: True"),
        ({"head_probability": float("nan")}, "head_probability: nan"),
        ({"max_queue_records": 1.5}, "max_queue_records: 1.5"),
        ({"max_queue_bytes": -1}, "max_queue_bytes: -1"),
        ({"exit_timeout_s": -1}, "exit_timeout_s: -1"),
        ({"exit_timeout_s": float("inf")}, "exit_timeout_s: inf"),
        ({"queue": "nonsense"}, "queue: 'nonsense'"),
        ({"queue": None}, "queue: is missing"),
        ({"queue_options": "x"}, "queue_options: str"),
    ],
    ids=str,
)
def test_a_client_refuses_settings_that_cannot_work(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TraceClient(**{"queue": "memory://x", "app": "shop", **wrong})
    assert words in str(caught.value)


def test_from_env_takes_a_transport_for_tests() -> None:
    transport = MemoryTransport()
    client = TraceClient.from_env({"TRACEJUDGE_APP": "shop"}, transport=transport)
    client.log(query="q")
    assert client.close()
    assert len(transport.records) == 1
