"""Keywords that `log()` does not know: kept as tags, and said once, with where they belong."""

from __future__ import annotations

import pytest

from tracejudge_sdk import TraceClient
from tracejudge_sdk.testing import MemoryTransport, traces_of


@pytest.mark.parametrize(
    ("name", "value", "tag", "words"),
    [
        ("tenat", "acme", "acme", "keeps it as a tag; check for a typo"),
        ("extras", {"tenant": "acme"}, '{"tenant": "acme"}', "keeps all of it as one tag; give what is to be sliced"),
    ],
)
def test_what_is_said_of_an_unknown_keyword_tells_where_its_value_belongs(
    name: str, value: object, tag: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    transport = MemoryTransport()
    with TraceClient(transport=transport, app="shop") as client:
        for _ in range(2):
            client.log(query="q", response="r", **{name: value})  # type: ignore[arg-type]
        client.flush(5)
    assert [trace.tags for trace in traces_of(transport)] == [{name: tag}] * 2
    (said,) = [record.getMessage() for record in caplog.records if name in record.getMessage()]
    assert words in said
