"""`--where FIELD=VALUE`: what it means, and what it refuses with field, value and remedy."""

from __future__ import annotations

import click
import pytest

from tracejudge.store import TraceFilter
from tracejudge_consumer.choosing.replay import with_fields
from tracejudge_consumer.choosing.trace_fields import trace_fields


def test_a_value_is_taken_as_it_stands() -> None:
    asked = ("tags.a=x=y", "tags.b=1,2", 'tags.c="q"', "tags.ü=退", "tags.d=", "language=", "status=ok")
    found = {"tags.a": "x=y", "tags.b": "1,2", "tags.c": '"q"', "tags.ü": "退", "tags.d": "", "language": ""}
    assert trace_fields(asked) == {**found, "status": "ok"}


def test_one_field_cannot_have_two_values() -> None:
    assert trace_fields(("tags.a=x", "tags.a=x")) == {"tags.a": "x"}
    for refuse in (trace_fields, lambda asked: with_fields(TraceFilter(), asked)):
        with pytest.raises(click.BadParameter, match=r"tags\.a cannot be 'x' and 'y' at once.*name one value"):
            refuse(("tags.a=x", "model=m", "tags.a=y"))
    with pytest.raises(click.BadParameter, match="version cannot be 'v1' and 'v2' at once"):
        with_fields(TraceFilter(), ("version=v1", "version=v2"))
    with pytest.raises(click.BadParameter, match="app cannot be 'shop' and 'desk' at once"):
        with_fields(TraceFilter(app="shop"), ("app=desk",))


@pytest.mark.parametrize("text", ["tag.a=x", "tags.=x", "tags.a", "=x", "Language=de", "langauge=de"])
def test_a_field_that_is_not_there_is_refused_with_those_that_are(text: str) -> None:
    for refuse in (trace_fields, lambda asked: with_fields(TraceFilter(), asked)):
        with pytest.raises(click.BadParameter, match=r"is not FIELD=VALUE with .*language.* or tags\.NAME"):
            refuse((text,))


def test_a_status_that_is_not_there_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="status is 'okk', which is not ok, error, incomplete"):
        trace_fields(("status=okk",))


def test_a_field_with_an_option_of_its_own_is_sent_to_it() -> None:
    command = click.Command("rates", params=[click.Option(["--version"])])
    with click.Context(command), pytest.raises(click.BadParameter, match="write --version v42"):
        trace_fields(("version=v42",))
