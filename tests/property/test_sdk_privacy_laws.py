"""Laws of privacy: nothing that was to stay leaves, whatever stands around it."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.property.test_sdk_codec_laws import traces
from tracejudge_sdk import Trace
from tracejudge_sdk.codec import decode, encode
from tracejudge_sdk.personal_data import mask_personal_data
from tracejudge_sdk.privacy import Privacy
from tracejudge_sdk.record_texts import change_texts
from tracejudge_sdk.redact import FAILED

EDGES = st.text(alphabet=st.characters(exclude_characters="@%"), max_size=30)
PERSONAL = st.sampled_from(
    ["a@b.example", "4111 1111 1111 1111", "+49 171 1234567", "password=hunter2", "token: 'a b'", "://u:p@h.example"]
)
WORDS = st.from_regex(r"[a-z]{1,12}", fullmatch=True)


def _nothing(name: str) -> None:
    pass


def run(privacy: Privacy, trace: Any) -> Any:
    for step in privacy.steps():
        trace = step(trace, _nothing)
    return trace


def _with_check_digit(digits: str) -> str:
    for last in "0123456789":
        doubled = [int(d) * (1 + place % 2) for place, d in enumerate(reversed(digits + last))]
        if sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0:
            return digits + last
    raise AssertionError


@given(EDGES, WORDS, WORDS, st.sampled_from(["com", "co.uk", "museum"]), st.sampled_from(["@", "%40"]), EDGES)
def test_an_address_is_masked_whatever_stands_around_it(
    before: str, name: str, host: str, domain: str, at: str, after: str
) -> None:
    assert f"{name}{at}{host}." not in mask_personal_data(f"{before} {name}{at}{host}.{domain} {after}")


@given(
    st.from_regex(r"[2-6][0-9]{11,17}", fullmatch=True),
    st.sampled_from(["", " ", "-"]),
    st.text(alphabet="abc .,:\n", max_size=20),
    st.text(alphabet="abc .,:\n", max_size=20),
)
def test_a_card_number_is_masked_in_groups_or_not(digits: str, gap: str, before: str, after: str) -> None:
    number = _with_check_digit(digits)
    written = gap.join(re.findall(r"\d{1,4}", number))
    assert written not in mask_personal_data(f"{before} {written} {after}")


@given(st.from_regex(r"\+[1-9][0-9]{0,2}( ?[0-9]){8,11}", fullmatch=True), EDGES)
def test_an_international_phone_number_is_masked(number: str, after: str) -> None:
    assert number not in mask_personal_data(f"call {number}, {after}")


@given(
    st.sampled_from(["sk-", "ghp_", "xoxb-", "AKIA", "Bearer ", "password=", "api_key: ", "token='"]),
    st.from_regex(r"[A-Z0-9]{20,40}", fullmatch=True),
    EDGES,
)
def test_a_key_is_masked(prefix: str, key: str, after: str) -> None:
    assert key not in mask_personal_data(f"use {prefix}{key} {after}")


@given(st.lists(st.text(max_size=20) | PERSONAL, max_size=6).map(" ".join))
def test_masking_twice_is_masking_once(text: str) -> None:
    once = mask_personal_data(text)
    assert mask_personal_data(once) == once


@given(traces)
def test_a_hook_that_always_fails_leaves_no_text(trace: Trace) -> None:
    def broken(text: str) -> str:
        raise ValueError(text)

    left = run(Privacy(redact=[broken]), trace)
    seen: set[str] = set()

    def see(text: str, field: str, kind: str) -> str:
        seen.add(re.sub(r" \(\d+\)$", "", text))
        return text

    change_texts(left, see)
    assert all(text in ("", FAILED) or text.startswith("id-") for text in seen)


@given(traces, st.sampled_from([{"redact": ["personal_data"]}, {"capture_text": False}, {"allow_fields": ["query"]}]))
def test_what_privacy_leaves_is_a_record_that_survives_the_wire(trace: Trace, settings: dict[str, Any]) -> None:
    left = run(Privacy(**settings), trace)
    assert decode(encode(left)) == left
    assert (left.trace_id, left.event_time, left.status) == (trace.trace_id, trace.event_time, trace.status)


@given(traces)
def test_without_texts_no_text_is_left(trace: Trace) -> None:
    left = run(Privacy(capture_text=False), trace)
    assert (left.query, left.response, left.error, left.reference) == ("", None, None, None)
    assert all(node.text is None for node in left.source_nodes)
    assert all(turn.content == "" for turn in left.history)
    assert all(
        value == "" or value.startswith("hmac-sha256:") or key.endswith(("_chars", "_hash"))
        for key, value in left.tags.items()
    )
    assert len(left.source_nodes) == len(trace.source_nodes)
    assert [node.score for node in left.source_nodes] == [node.score for node in trace.source_nodes]
