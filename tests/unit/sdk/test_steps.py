"""The steps over the records: between being built and leaving the process."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.held_transport import FailingTransport
from tracejudge.testing import make_trace
from tracejudge_sdk import SendPolicy, Trace, TraceClient, TransportUnavailable
from tracejudge_sdk.testing import MemoryTransport, records_of, traces_of
from tracejudge_sdk.trace import Feedback, Record

QUICK = SendPolicy(linger_s=0.001, first_pause_s=0.001, longest_pause_s=0.002)


class Shout:
    """Rewrites the query of a trace and the comment of a feedback."""

    def __call__(self, record: Record, note: Callable[[str], None]) -> Record:
        note("shouted")
        if isinstance(record, Trace):
            return record.model_copy(update={"query": record.query.upper()})
        assert isinstance(record, Feedback)
        return record.model_copy(update={"comment": (record.comment or "").upper()})


class Break:
    def __call__(self, record: Record, note: Callable[[str], None]) -> Record:
        raise ValueError(f"cannot read {record}")


def test_every_record_goes_through_every_step_in_order() -> None:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    client.steps = (Shout(),)
    client.log(query="logged")
    client.log_trace(make_trace().model_copy(update={"query": "built"}))
    client.feedback("t", 1, "said")
    assert client.close(30)
    assert [trace.query for trace in traces_of(transport)] == ["LOGGED", "BUILT"]
    assert [record.comment for record in records_of(transport) if isinstance(record, Feedback)] == ["SAID"]
    assert dict(client.stats().notes) == {"shouted": 3}


def test_a_record_is_stepped_over_once_however_often_it_is_sent() -> None:
    transport = FailingTransport(*[TransportUnavailable("down")] * 3)
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    client.steps = (Shout(),)
    client.log(query="q")
    assert client.close(30)
    assert dict(client.stats().notes) == {"shouted": 1}


def test_a_step_that_breaks_costs_the_record_and_shows_no_text() -> None:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    client.steps = (Break(),)
    client.log(query="a secret")
    assert client.close(30)
    assert transport.records == []
    stats = client.stats()
    assert dict(stats.dropped) == {"hook_failed": 1}
    assert stats.last_error == "Break: ValueError: the record was not sent"
