"""The embedded owner speaks ClickHouse's HTTP interface: to the unmodified client, to curl, and not to web pages."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from tracejudge.store import open_store
from tracejudge.store.embedded.engine import Engine
from tracejudge.store.embedded.ownership import Endpoint, published
from tracejudge.store.embedded.server import EmbeddedServer, Limits

UTC = timezone.utc


@pytest.fixture
def owner(embedded_store_url: str) -> Endpoint:
    endpoint = published(Path(embedded_store_url.removeprefix("chdb:///")))
    assert endpoint is not None
    return endpoint


def _client(owner: Endpoint, **options: Any) -> Any:
    return clickhouse_connect.get_client(
        host=owner.host, port=owner.port, username=owner.user, password=owner.password, **options
    )


@pytest.fixture
def client(owner: Endpoint) -> Iterator[Any]:
    client = _client(owner)
    client.command("CREATE DATABASE IF NOT EXISTS http_tests")
    client.database = "http_tests"
    client.command(
        "CREATE OR REPLACE TABLE t (a UInt64, s String, n Array(Nullable(String))) ENGINE=MergeTree ORDER BY a"
    )
    yield client
    client.close()


def _raw(
    owner: Endpoint, *, host: str | None = None, password: str | None = None, method: str = "GET", **query: str
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(owner.host, owner.port, timeout=10)
    headers = {"Host": host or f"127.0.0.1:{owner.port}"}
    if password is not None:
        headers |= {"X-ClickHouse-User": owner.user, "X-ClickHouse-Key": password}
    connection.request(method, "/?" + urlencode(query, quote_via=quote), headers=headers)
    response = connection.getresponse()
    response.body = response.read()  # type: ignore[attr-defined]
    connection.close()
    return response


@pytest.mark.parametrize("compress", [False, "lz4", "zstd", "gzip"])
def test_the_unmodified_client_writes_and_reads_with_every_compression(
    client: Any, owner: Endpoint, compress: Any
) -> None:
    other = _client(owner, compress=compress, database="http_tests")
    rows = [[i, "ü" * i, ["a", None]] for i in range(300)]
    other.insert("t", rows, column_names=["a", "s", "n"])
    assert other.query("SELECT count(), sum(lengthUTF8(s)) FROM t").result_rows == [(300, 44850)]
    assert other.query("SELECT n FROM t WHERE a = 7").result_rows == [(["a", None],)]
    # Above what is held back to tell errors properly: this one streams.
    with other.query_row_block_stream("SELECT number, toString(number) FROM numbers(400000)") as stream:
        assert sum(len(block) for block in stream) == 400_000
    other.close()


def test_parameters_settings_formats_and_empty_results(client: Any) -> None:
    nasty = "x'y\\n\t\n{}%"
    assert client.query("SELECT {a:String} AS a", parameters={"a": nasty}).result_rows == [(nasty,)]
    many = [f"k'{i}" for i in range(5000)]
    assert client.query("SELECT length({x:Array(String)})", parameters={"x": many}).result_rows == [(5000,)]
    assert client.query("SELECT getSetting('max_threads')", settings={"max_threads": 3}).result_rows == [(3,)]
    assert client.query("SELECT getSetting('max_threads') = 3").result_rows == [(0,)]
    assert client.query("SELECT 1 WHERE 0").result_rows == []
    assert client.query("SELECT a, s FROM t LIMIT 0").column_names == ("a", "s")
    assert client.raw_query("SELECT 1 AS x FORMAT JSONEachRow") == b'{"x":1}\n'
    assert json.loads(client.raw_query("SELECT 1 AS x", fmt="JSON"))["data"] == [{"x": 1}]
    assert client.command("EXISTS TABLE t") == 1
    client.raw_insert("t", column_names=["a", "s"], insert_block="1,x\n2,y\n", fmt="CSV")
    client.command("INSERT INTO t (a, s) VALUES (3, 'it''s FORMAT CSV; SELECT 1')")
    client.command("INSERT INTO t SELECT number + 10, 'z', [] FROM numbers(2)")
    assert client.query("SELECT count() FROM t").result_rows == [(5,)]


def test_a_session_keeps_its_temporary_table_and_others_do_not_see_it(client: Any, owner: Endpoint) -> None:
    client.command("CREATE TEMPORARY TABLE mine (x UInt8)")
    client.command("INSERT INTO mine VALUES (1)")
    assert client.query("SELECT x FROM mine").result_rows == [(1,)]
    other = _client(owner, autogenerate_session_id=False)
    with pytest.raises(DatabaseError) as caught:
        other.query("SELECT x FROM mine")
    assert caught.value.code == 60
    other.close()


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT nothing", 47),
        ("SELECT * FROM nowhere", 60),
        ("SELEC 1", 62),
        ("SELECT 1; SELECT 2", 62),
        ("SELECT toUInt8('x')", 6),
        ("SELECT throwIf(number = 100000) FROM numbers(200000)", 395),
        ("SELECT count() FROM numbers(100000000000) SETTINGS max_execution_time = 0.2", 159),
        ("SELECT groupArray(number) FROM numbers(10000000) SETTINGS max_memory_usage = 10000000", 241),
        ("SELECT 1 SETTINGS no_such_setting = 1", 115),
    ],
)
def test_errors_carry_clickhouses_codes(client: Any, sql: str, code: int) -> None:
    with pytest.raises(DatabaseError) as caught:
        client.query(sql)
    assert caught.value.code == code
    assert client.query("SELECT 1").result_rows == [(1,)]


def test_an_error_after_the_headers_still_tells_its_code(client: Any) -> None:
    from clickhouse_connect.driver.exceptions import StreamFailureError

    sql = "SELECT number, throwIf(number = 1900000, 'too far') FROM numbers(2000000) SETTINGS max_block_size = 10000"
    with pytest.raises(StreamFailureError, match="too far"), client.query_row_block_stream(sql) as stream:
        for _block in stream:
            pass
    assert client.query("SELECT 1").result_rows == [(1,)]


def test_a_bad_insert_stores_nothing(client: Any) -> None:
    with pytest.raises(DatabaseError) as caught:
        client.raw_insert("t", column_names=["a", "s"], insert_block="1,x\nnonsense,y\n", fmt="CSV")
    assert caught.value.code in (26, 27)
    assert client.query("SELECT count() FROM t").result_rows == [(0,)]


def test_an_insert_that_fails_only_when_it_is_written_is_not_acknowledged(client: Any) -> None:
    """A full disk, too many parts, memory: the engine's streaming insert says nothing of them. A constraint is found
    out at the same moment."""
    client.command("CREATE OR REPLACE TABLE few (a UInt64, CONSTRAINT small CHECK a < 10) ENGINE=MergeTree ORDER BY a")
    with pytest.raises(DatabaseError) as caught:
        client.insert("few", [[1], [500]], column_names=["a"])
    assert caught.value.code == 469
    assert client.insert("few", [[1], [2]], column_names=["a"]).written_rows == 2
    assert client.query("SELECT count() FROM few").result_rows == [(2,)]


def test_an_insert_may_carry_settings_of_its_own(client: Any) -> None:
    client.raw_query("INSERT INTO t (a, s) SETTINGS input_format_allow_errors_num = 1 FORMAT CSV\n1,x\nnonsense,y\n")
    assert client.query("SELECT a, s FROM t").result_rows == [(1, "x")]


def test_a_client_that_goes_away_stops_its_query(client: Any, owner: Endpoint) -> None:
    hasty = _client(owner, send_receive_timeout=1, query_retries=0)
    with pytest.raises(OperationalError):
        hasty.query("SELECT count() FROM numbers(1000000000000)")
    running = "SELECT count() FROM system.processes WHERE query LIKE 'SELECT count() FROM numbers(%'"
    while client.query(running).result_rows != [(0,)]:
        pass  # the test's own time limit ends a wait in vain
    hasty.close()


async def test_the_async_client_works_too(owner: Endpoint) -> None:
    client = await clickhouse_connect.get_async_client(
        host=owner.host, port=owner.port, username=owner.user, password=owner.password
    )
    assert (await client.query("SELECT 1")).result_rows == [(1,)]
    await client.close()


def test_curl_like_requests(owner: Endpoint, client: Any) -> None:
    answer = _raw(owner, password=owner.password, query="SELECT {x:UInt8} + 1", param_x="1")
    assert (answer.status, answer.body) == (200, b"2\n")  # type: ignore[attr-defined]
    assert answer.getheader("X-ClickHouse-Format") == "TabSeparated"
    answer = _raw(owner, password=owner.password, query="SELECT 1 AS a", default_format="JSONEachRow")
    assert answer.body == b'{"a":1}\n'  # type: ignore[attr-defined]
    answer = _raw(owner, password=owner.password, method="POST", query="INSERT INTO http_tests.t (a) VALUES (5)")
    assert answer.status == 200
    assert client.query("SELECT a FROM t").result_rows == [(5,)]


def test_a_get_only_reads(owner: Endpoint, client: Any) -> None:
    for sql in (
        "INSERT INTO http_tests.t (a) VALUES (5)",
        "DROP TABLE http_tests.t",
        "/* SELECT */ TRUNCATE http_tests.t",
    ):
        answer = _raw(owner, password=owner.password, query=sql)
        assert (answer.status, answer.getheader("X-ClickHouse-Exception-Code")) == (403, "164")
    assert client.query("SELECT count() FROM t").result_rows == [(0,)]


def test_without_the_password_nothing_is_answered(owner: Endpoint) -> None:
    for password in (None, "", "wrong", owner.password[:-1], owner.password + "x"):
        answer = _raw(owner, password=password, query="SELECT 1")
        assert (answer.status, answer.getheader("X-ClickHouse-Exception-Code")) == (401, "516")
    answer = _raw(owner, query="SELECT 1", user="default", password_="")
    assert answer.status == 401
    assert _raw(owner, query="SELECT 1", user=owner.user).status == 401


@pytest.mark.parametrize("name", ["Authorization", "X-ClickHouse-User", "X-ClickHouse-Key"])
@pytest.mark.parametrize("value", [b"Basic \xff\xfe", b"Basic //79", b"\xff", b"Basic \xc3"])
def test_a_password_that_is_no_text_is_a_wrong_password(owner: Endpoint, name: str, value: bytes) -> None:
    connection = http.client.HTTPConnection(owner.host, owner.port, timeout=30)
    try:
        connection.putrequest("GET", "/?query=SELECT%201")
        if name == "X-ClickHouse-Key":
            connection.putheader("X-ClickHouse-User", owner.user)
        connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        answer.read()
    finally:
        connection.close()
    assert (answer.status, answer.getheader("X-ClickHouse-Exception-Code")) == (401, "516")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "127.0.0.1.nip.io:{port}"]
)
def test_a_web_page_that_rebinds_its_name_is_refused_even_with_the_password(owner: Endpoint, host: str) -> None:
    answer = _raw(owner, host=host.format(port=owner.port), password=owner.password, query="SELECT 1")
    assert answer.status == 403
    assert b"Host" in answer.body  # type: ignore[attr-defined]


@pytest.mark.parametrize("host", ["localhost:{port}", "[::1]:{port}", "LOCALHOST:{port}"])
def test_loopback_names_are_accepted(owner: Endpoint, host: str) -> None:
    assert _raw(owner, host=host.format(port=owner.port), password=owner.password, query="SELECT 1").status == 200


async def test_bodies_above_the_limit_are_refused_packed_or_not() -> None:
    # No engine: the limits are checked before it is asked.
    server = EmbeddedServer(
        cast(Engine, None), password="pw", instance="i", limits=Limits(body_bytes=1_000_000, concurrent=1)
    )
    port = await server.start()
    try:
        import aiohttp

        headers = {"X-ClickHouse-User": "tracejudge", "X-ClickHouse-Key": "pw"}
        bomb = gzip.compress(bytes(50_000_000))
        assert len(bomb) < 100_000
        async with aiohttp.ClientSession(headers=headers) as session:
            for body, encoding in ((bytes(2_000_000), "identity"), (bomb, "gzip"), (b"\x1f\x8bjunk", "gzip")):
                async with session.post(
                    f"http://127.0.0.1:{port}/", data=body, headers={"Content-Encoding": encoding}
                ) as answer:
                    assert answer.status == (500 if len(body) < 100 else 413)
            async with session.post(
                f"http://127.0.0.1:{port}/", data=b"x", headers={"Content-Encoding": "br"}
            ) as answer:
                assert answer.status == 501
            async with session.post(f"http://127.0.0.1:{port}/", data=b"  ") as answer:
                assert answer.headers["X-ClickHouse-Exception-Code"] == "62"
    finally:
        await server.stop()


def test_the_store_uses_the_same_door(store_url: str) -> None:
    with open_store(store_url) as store:
        assert store.query("SELECT {x:DateTime64(3, 'UTC')}", {"x": "2026-01-01 00:00:00.123"})[0][0] == int(
            datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000 + 123
        )
