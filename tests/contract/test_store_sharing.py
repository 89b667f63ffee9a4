"""One store for several threads, stores and kinds of server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from tests.support.store_fixture import Databases
from tests.support.store_rows import DAY, Answers, stored
from tracejudge.store import (
    ScoreFilter,
    Store,
    TraceFilter,
    open_store,
)
from tracejudge.testing import make_score


def test_an_insert_whose_acknowledgement_was_lost_is_sent_again_and_counts_once(contract_store: Store) -> None:
    scores = [make_score(i) for i in range(10)]
    connection = contract_store._connection
    attempts = []

    def lose_the_answer_once(client: Any) -> None:
        from clickhouse_connect.driver.exceptions import OperationalError

        attempts.append(client)
        columns = contract_store.scores.columns
        rows = [contract_store.scores._encode(score) for score in scores]
        client.insert("scores", rows, column_names=list(columns.names), column_type_names=list(columns.types))
        if len(attempts) == 1:
            raise OperationalError("connection reset after the server had stored the rows")

    connection.run(lose_the_answer_once)
    assert len(attempts) == 2
    assert Answers(contract_store).all()["rates"] == (10, 10, 0)
    assert contract_store.scores.count(ScoreFilter()) == 10


@pytest.mark.timeout(60)
def test_b37_eight_readers_and_a_writer_share_one_store(contract_store: Store) -> None:
    batches, size = 25, 10

    def write() -> None:
        for batch in range(batches):
            contract_store.scores.insert([make_score(batch * size + i) for i in range(size)])

    def read(_: int) -> int:
        last = 0
        for _round in range(8):
            rows = contract_store.scores.buckets(DAY)
            count = sum(row.bucket.n for row in rows)
            assert count >= last
            last = count
        return last

    with ThreadPoolExecutor(9) as threads:
        writer = threads.submit(write)
        readers = [threads.submit(read, i) for i in range(8)]
        writer.result()
        assert all(reader.result() <= batches * size for reader in readers)
    (row,) = contract_store.scores.buckets(DAY)
    assert row.bucket.n == batches * size


def test_a_second_store_sees_what_the_first_stored(contract_store: Store, contract_url: str) -> None:
    contract_store.traces.insert([stored(1)])
    with open_store(contract_url) as other:
        other.check_schema()
        assert other.migrate() == []
        assert other.traces.count(TraceFilter()) == 1
        assert abs(other.now() - contract_store.now()) < timedelta(minutes=1)
    assert contract_store.traces.count(TraceFilter()) == 1


def test_a_server_is_tested_where_one_is_named(server_databases: Databases) -> None:
    """Skipped, with the reason, where the suite above ran on the embedded store alone."""
    url = server_databases.take()
    with open_store(url) as store:
        assert store.version()
    server_databases.give_back(url)
