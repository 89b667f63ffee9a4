"""What appeared with a fall: told with its time and rates, and only when it was not there and holds what came after."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.support.judged_rows import row
from tracejudge.evidence.appeared import Appeared, appeared
from tracejudge.evidence.words import appeared_says
from tracejudge.store import JudgedRow
from tracejudge.testing.builders import START


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def rows(first: int, last: int, *, failing: int, **fields: str) -> list[JudgedRow]:
    """One a minute, of which one in `failing` does not pass."""
    return [row(k, passed=k % failing != 0, fields=fields) for k in range(first, last)]


def found(traces: list[JudgedRow], *, started: int) -> tuple[Appeared, ...]:
    before = [one for one in traces if one.event_time < at(started)]
    since = [one for one in traces if one.event_time >= at(started)]
    return appeared(before, since, started=at(started), until=traces[-1].event_time)


RELEASE = [*rows(0, 600, failing=10, version="v41"), *rows(600, 700, failing=2, version="v42")]


def canary(*, every: int) -> list[JudgedRow]:
    """Of every so many rows one is of v42, and all of those fail."""
    after = [row(k, passed=k % every != 0, fields={"version": "v41" if k % every else "v42"}) for k in range(600, 780)]
    return [*rows(0, 600, failing=10, version="v41"), *after]


@pytest.mark.parametrize("started", [585, 600, 640])
def test_a_new_release_is_told_though_the_start_of_the_fall_is_an_estimate(started: int) -> None:
    (one,) = found(RELEASE, started=started)
    assert (one.attribute, one.value, one.at) == ("version", "v42", at(600))
    held = 700 - max(600, started)
    assert (one.traces, one.of_traces) == (held, held)
    assert one.before is not None
    assert one.since is not None
    assert one.before.estimate == pytest.approx(0.9, abs=0.002)
    assert one.since.estimate == pytest.approx(0.5, abs=0.002)


def test_the_sentence_has_the_time_the_traces_and_both_rates_and_names_no_cause() -> None:
    (one,) = found(RELEASE, started=600)
    said = appeared_says(one)
    assert said.startswith(
        f"version v42 appeared about {at(600):%Y-%m-%d %H:%M} UTC, and all 100 judged traces since have it"
    )
    assert "50.0 % (" in said
    assert said.endswith(" before")
    assert "90.0 % (" in said
    assert "cause" not in said
    (late,) = found(RELEASE, started=640)
    assert f"all 60 judged traces since {at(640):%Y-%m-%d %H:%M} have it" in appeared_says(late)


def test_the_few_that_the_old_release_still_serves_are_counted() -> None:
    traces = list(RELEASE)
    traces[650:653] = [replace(one, fields={"version": "v41"}) for one in traces[650:653]]
    (one,) = found(traces, started=600)
    assert "and 97 of 100 judged traces since have it" in appeared_says(one)


def test_a_canary_that_is_worse_than_the_old_release_beside_it_is_told_with_both_rates() -> None:
    (one,) = found(canary(every=3), started=600)
    assert (one.value, one.traces, one.of_traces) == ("v42", 60, 180)
    said = appeared_says(one)
    assert "and 60 of 180 judged traces since have it: 0.0 % (" in said
    assert ") pass, 100.0 % (" in said
    assert ") of the others, 90.0 % (" in said


def test_prompt_model_and_index_that_come_together_are_each_told() -> None:
    old = rows(0, 300, failing=10, prompt_version="p1", model="small", index_version="i1", category="a")
    new = rows(300, 360, failing=2, prompt_version="p2", model="large", index_version="i1", category="b")
    assert [(one.attribute, one.value) for one in found([*old, *new], started=300)] == [
        ("prompt_version", "p2"),
        ("model", "large"),
    ]


@pytest.mark.parametrize(
    ("traces", "started"),
    [
        pytest.param(rows(0, 700, failing=5, version="v41"), 600, id="nothing new"),
        pytest.param(RELEASE, 690, id="the fall began well after it"),
        pytest.param(
            [*RELEASE[:600], *(one for pair in zip(rows(600, 700, failing=9, version="v42"),
                                                   rows(600, 700, failing=2, version="v41"), strict=True)
                               for one in pair)],
            600,
            id="a canary that is better than the old release beside it",
        ),
        pytest.param(canary(every=6), 600, id="a canary on a sixth of the traffic"),
        pytest.param([*rows(0, 600, failing=10), *RELEASE[600:]], 600, id="traces began to say their version"),
        pytest.param([*rows(0, 9, failing=3, version="v42"), *RELEASE[9:]], 600, id="rolled back to"),
        pytest.param(RELEASE[:604], 600, id="four traces"),
        pytest.param(RELEASE[600:], 600, id="nothing before"),
    ],
)  # fmt: skip
def test_what_was_there_or_holds_too_little_is_not_told(traces: list[JudgedRow], started: int) -> None:
    assert found(traces, started=started) == ()


def test_a_release_that_was_healthy_before_the_fall_says_so_and_does_not_lead() -> None:
    healthy = [*rows(0, 600, failing=10, version="v41"), *rows(600, 700, failing=10, version="v42")]
    traces = [*healthy, *rows(700, 820, failing=2, version="v42")]
    (one,) = found(traces, started=700)
    assert one.well_until is not None
    assert one.well_until.estimate == pytest.approx(0.9, abs=0.01)
    assert "UTC, passed 90.0 % (" in appeared_says(one)
    assert "until the fall began, and all 120 judged traces since" in appeared_says(one)
    (late,) = found(RELEASE, started=640)
    assert late.well_until is None, "the start is an estimate: it was as bad before it"
