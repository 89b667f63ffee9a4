"""What `find` takes for a word, and how ids are looked for in records that may be no JSON."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracejudge.store import words_of
from tracejudge.store.mentions import json_forms
from tracejudge.store.tombstones import hashed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Refund, refund-deadline!", ("refund", "deadline")),
        ("Übung macht den Meister", ("übung", "macht", "den", "meister")),
        ("退款政策 v2.1", ("退款政策", "v2", "1")),
        ("a_b a'b", ("a", "b")),
        (" ... ", ()),
        ("", ()),
    ],
)
def test_words_are_cut_as_the_index_cuts_them(text: str, words: tuple[str, ...]) -> None:
    assert words_of(text) == words


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_an_id_is_found_in_either_spelling_of_its_json(text: str) -> None:
    pattern = "|".join(json_forms(text))
    for ascii_only in (False, True):
        assert re.fullmatch(pattern, json.dumps(text, ensure_ascii=ascii_only))
    assert not re.fullmatch(pattern, json.dumps(text + "x"))


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_hash_tells_kinds_and_ids_apart(one: str, other: str) -> None:
    assert hashed("trace", one) != hashed("user", one)
    assert (hashed("user", one) == hashed("user", other)) == (
        one.encode("utf-8", "replace") == other.encode("utf-8", "replace")
    )
