"""Calls that are not quite right: they end no request, lose no answer, and somebody is told."""

from __future__ import annotations

import logging
from datetime import datetime, timezone
from typing import Any, cast

import pytest

from tracejudge_sdk import TraceClient
from tracejudge_sdk.testing import MemoryTransport, traces_of
from tracejudge_sdk.trace import Trace


def logged(*positional: Any, **fields: Any) -> Trace:
    transport = MemoryTransport()
    with TraceClient(app="shop", transport=transport) as client:
        cast(Any, client).log(*positional, **fields)
    (trace,) = traces_of(transport)
    return trace


def test_values_without_a_keyword_are_query_response_and_passages() -> None:
    trace = logged("q", "r", ["text"], "what is this")
    assert (trace.query, trace.response, trace.source_nodes[0].text) == ("q", "r", "text")
    assert logged("q", response="r").response == "r"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-01-02 10:00", datetime(2026, 1, 2, 10, tzinfo=timezone.utc)),
        ("2026-01-02T10:00:00Z", datetime(2026, 1, 2, 10, tzinfo=timezone.utc)),
        (datetime(2026, 1, 2, 10), datetime(2026, 1, 2, 10, tzinfo=timezone.utc)),  # noqa: DTZ001 - that is the point
    ],
)
def test_an_event_time_in_another_shape_is_mended(given: object, expected: datetime) -> None:
    assert logged(query="q", event_time=given).event_time == expected


@pytest.mark.parametrize("given", ["yesterday", 12, [], {}])
def test_an_event_time_beyond_mending_leaves_the_time_of_logging_and_the_trace(given: object) -> None:
    trace = logged(query="q", event_time=given)
    assert trace.lossy
    assert abs((datetime.now(timezone.utc) - trace.event_time).total_seconds()) < 3600


def test_a_field_of_another_name_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tracejudge_sdk"):
        for _ in range(3):
            trace = logged(question_of_test="Q?")
    assert trace.tags == {"question_of_test": "Q?"}
    said = [record.message for record in caplog.records if "question_of_test" in record.message]
    assert len(said) == 1
    assert "Q?" not in said[0]
