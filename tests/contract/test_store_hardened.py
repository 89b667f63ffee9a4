"""The embedded owner under clients that are wrong, hostile, read-only or many."""

from __future__ import annotations

import http.client
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from tests.support.store_model.driver import begin, run
from tests.support.store_model.operations import operations
from tests.support.store_model.oracle import Oracle
from tests.support.store_model.readers import READERS
from tracejudge.errors import StoreError
from tracejudge.store import Store, open_store
from tracejudge.store.embedded import sessions
from tracejudge.store.embedded.ownership import Endpoint, published
from tracejudge.testing import make_score


@pytest.fixture
def owner(embedded_store_url: str) -> Endpoint:
    endpoint = published(Path(embedded_store_url.removeprefix("chdb:///")))
    assert endpoint is not None
    return endpoint


@pytest.fixture
def client(owner: Endpoint) -> Iterator[Any]:
    client = clickhouse_connect.get_client(
        host=owner.host, port=owner.port, username=owner.user, password=owner.password, autogenerate_session_id=False
    )
    yield client
    client.close()


def _send(owner: Endpoint, raw: bytes) -> int | None:
    """The status that raw bytes get; None when the connection is closed without one."""
    connection = http.client.HTTPConnection(owner.host, owner.port, timeout=20)
    connection.connect()
    try:
        connection.sock.sendall(raw)
        response = http.client.HTTPResponse(connection.sock)
        response.begin()
        return response.status
    except (http.client.HTTPException, ConnectionError):
        return None
    finally:
        connection.close()


def test_a_reader_needs_no_right_but_to_read(store: Store, store_url: str) -> None:
    """Every reader of the model test, by a client that may only read; and the same client writes nothing."""
    import random as randomness

    class World:
        def __init__(self) -> None:
            self.store = store

        def reopen(self) -> None: ...
        def let_another_own(self) -> None: ...
        def kill(self) -> None: ...

    steps = [one for one in operations(5, 60) if one.kind in ("traces", "scores", "ledger", "labels", "calls")]
    assert run(World(), steps) is None
    begin(store)
    with open_store(store_url) as reader:
        reader._connection._settings["readonly"] = "1"
        reader._connection._forget(reader._connection._generation)
        for name, read in READERS.items():
            if name != "minutes":  # brings the rollup up to date first: the leader's work
                read(reader, Oracle(), randomness.Random(1))
        reader.check_schema()
        for write in (lambda: reader.scores.insert([make_score(1)]), lambda: reader.command("DROP TABLE scores")):
            with pytest.raises(StoreError) as caught:
                write()
            assert caught.value.code == 164
            assert "may only read" in str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "WITH 1 AS x INSERT INTO t SELECT x",
        "SELECT 1 INTO OUTFILE '/tmp/of-the-owner'",
        "/* SELECT */ DROP TABLE t",
        "(SELECT 1) INTO OUTFILE 'x'",
        "SYSTEM FLUSH LOGS",
        "SET max_threads = 1",
        "ATTACH TABLE t",
    ],
)
def test_readonly_is_kept_by_whatever_is_no_plain_query_and_spoils_nobody_elses_handle(client: Any, sql: str) -> None:
    for level in (1, 2):
        with pytest.raises(DatabaseError) as caught:
            client.command(sql, settings={"readonly": level})
        assert caught.value.code == 164
        assert client.query("SELECT 1", settings={"readonly": level}).result_rows == [(1,)]
    # The engine's own setting could not be taken back: the next client on the handle would be refused.
    assert client.query("SELECT getSetting('max_threads')", settings={"max_threads": 3}).result_rows == [(3,)]


def test_garbage_on_the_wire_is_answered_or_hung_up_on_and_the_owner_lives_on(owner: Endpoint, client: Any) -> None:
    draw = random.Random(4)
    host = f"Host: 127.0.0.1:{owner.port}\r\n".encode()
    key = f"X-ClickHouse-User: {owner.user}\r\nX-ClickHouse-Key: {owner.password}\r\n".encode()
    requests = [
        b"GET /?query=%ff%fe HTTP/1.1\r\n" + host + key + b"\r\n",
        b"POST / HTTP/1.1\r\n" + host + key + b"Content-Length: 5\r\n\r\n\xff\xfe\x00\x80\xc3",
        b"POST /?session_id=a&session_timeout=soon HTTP/1.1\r\n" + host + key + b"Content-Length: 8\r\n\r\nSELECT 1",
        b"POST /?session_id=a&session_timeout=nan HTTP/1.1\r\n" + host + key + b"Content-Length: 8\r\n\r\nSELECT 1",
        b"POST /?max_threads=' HTTP/1.1\r\n" + host + key + b"Content-Length: 8\r\n\r\nSELECT 1",
        b"POST /?database=%00 HTTP/1.1\r\n" + host + key + b"Content-Length: 8\r\n\r\nSELECT 1",
        b"POST /?a%20b=1 HTTP/1.1\r\n" + host + key + b"Content-Length: 8\r\n\r\nSELECT 1",
        b"PUT / HTTP/1.1\r\n" + host + key + b"Content-Length: 0\r\n\r\n",
        b"GET /other HTTP/1.1\r\n" + host + key + b"\r\n",
        b"POST / HTTP/1.1\r\n" + host + key + b"Content-Encoding: zstd\r\nContent-Length: 3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\n" + host + key + b"Content-Type: multipart/form-data\r\nContent-Length: 3\r\n\r\nabc",
        b"\x16\x03\x01\x02\x00\x01\x00",
        *(draw.randbytes(draw.randrange(1, 400)) + b"\r\n\r\n" for _ in range(30)),
    ]
    statuses = [_send(owner, raw) for raw in requests]
    assert statuses[0] == 403
    assert statuses[2] == statuses[3] == 200
    assert all(status is None or status >= 400 for status in (*statuses[:2], *statuses[4:])), statuses
    assert client.query("SELECT 1").result_rows == [(1,)]


def test_a_session_that_nobody_uses_is_closed_and_too_many_are_refused(
    owner: Endpoint, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_MAX_SESSIONS", 2)
    clients = [
        clickhouse_connect.get_client(
            host=owner.host, port=owner.port, username=owner.user, password=owner.password, session_id=f"limited-{i}"
        )
        for i in range(3)
    ]
    clients[2].command("CREATE TEMPORARY TABLE mine (x UInt8)")
    assert clients[2].query("SELECT count() FROM mine").result_rows == [(0,)]
    for number in range(2):  # whoever was idle longest made room
        clients[number].command("SELECT 1")
    with pytest.raises(DatabaseError) as caught:
        clients[2].query("SELECT count() FROM mine")
    assert caught.value.code == 60
    for one in clients:
        one.close()


def test_many_clients_at_once_share_few_threads(owner: Endpoint, client: Any) -> None:
    answers: list[int] = []

    def ask(number: int) -> None:
        mine = clickhouse_connect.get_client(
            host=owner.host, port=owner.port, username=owner.user, password=owner.password
        )
        answers.append(mine.query(f"SELECT sum(number) + {number} FROM numbers(100000)").result_rows[0][0])
        mine.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    engine_threads = {one.name for one in threading.enumerate() if one.name.startswith("tracejudge-chdb")}
    for thread in threads:
        thread.join()
    assert sorted(answers) == [4999950000 + number for number in range(40)]
    assert len(engine_threads) <= 8


def test_what_waits_is_bounded_in_bytes(owner: Endpoint, embedded_store_url: str, client: Any) -> None:
    from tracejudge.store.embedded.locate import _owned

    directory = Path(embedded_store_url.removeprefix("chdb:///")).resolve()
    server = _owned[directory].owner.server
    real = server._limits
    server._limits = replace(real, held_bytes=100)
    server._held = 1  # somebody waits already
    try:
        with pytest.raises(DatabaseError) as caught:
            client.query("SELECT '" + "x" * 200 + "'")
        assert caught.value.code == 202
    finally:
        server._limits = real
        server._held = 0
    with suppress(DatabaseError):
        client.query("SELECT 1")
