"""A topic of somebody else's records, through six lines of settings, to scores and dead letters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.kafka_broker import KafkaBroker
from tracejudge.store import Store
from tracejudge.testing import make_trace
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE
from tracejudge_sdk import codec
from tracejudge_sdk.transports import transport_for

pytestmark = pytest.mark.kafka


def test_a_topic_of_another_form_is_judged_and_what_does_not_fit_is_a_dead_letter(
    kafka_broker: KafkaBroker,
    kafka_topic: str,
    store: Store,
    store_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"kafka://{kafka_broker.bootstrap}/{kafka_topic}"
    monkeypatch.chdir(tmp_path)
    Path("tracejudge.toml").write_text(
        f'queue = "{url}"\nstore = "{store_url}"\n[intake]\nresolve_nodes = "tests.support.passage_texts:texts"\n'
        '[intake.mapping]\nquery = "request.question"\nresponse = "answer"\nsource_nodes = "hits.*.doc_id"\n'
        'latency_ms = { path = "took_s", scale = 1000 }\nevent_time = { path = "ts", format = "epoch_ms" }\n'
    )
    foreign = {
        "request": {"question": "What is the limit of the plan?"},
        "answer": "The limit of the plan is ten users.",
        "hits": [{"doc_id": "d-1"}, {"doc_id": "d-2"}],
        "took_s": 0.25,
    }
    records = [(f"k{n}", json.dumps({**foreign, "ts": 1_767_268_800_000 + n}).encode()) for n in range(5)]
    records += [("bad", b'{"answer": "no question"}'), ("t-000009", codec.encode(make_trace(9)))]
    transport = transport_for(url)
    transport.send(records)
    transport.close(5.0)
    assert run(["consume", "--until-idle", "--json"]) == EXIT_DONE
    report = json.loads(capsys.readouterr().out)
    assert (report["traces"], report["passed"], report["dead_letters"]) == (6, 6, {"unmapped": 1})
    rows = store.query(
        "SELECT app, latency_ms, toUnixTimestamp64Milli(event_time) FROM traces FINAL ORDER BY event_time"
    )
    assert rows[:5] == [(kafka_topic, 250.0, 1_767_268_800_000 + n) for n in range(5)]
    ((detail,),) = store.query("SELECT detail FROM dead_letters FINAL")
    assert "the path 'request.question' leads nowhere: the record has no 'request'" in detail
