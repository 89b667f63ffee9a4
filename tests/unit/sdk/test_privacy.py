"""What leaves the process: hooks, the allow-list, lengths and hashes."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from tracejudge_sdk import ConfigError, Feedback, Trace, TracePart
from tracejudge_sdk.digests import Digester
from tracejudge_sdk.json_values import CUT_MARK
from tracejudge_sdk.personal_data import EMAIL
from tracejudge_sdk.privacy import Privacy
from tracejudge_sdk.redact import FAILED, MOST_CHARS
from tracejudge_sdk.trace import Record, SourceNode, Turn

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
SECRET = "jane@example.com"


def make_trace(**fields: Any) -> Trace:
    return Trace(trace_id="t1", app="shop", event_time=NOW, **fields)


def full(text: str) -> Trace:
    """A trace with the text in every field that can hold one."""
    return make_trace(
        query=text,
        response=text,
        status="error",
        error=text,
        reference=text,
        history=(Turn(role="user", content=text), Turn(role=text, content=text)),
        source_nodes=(
            SourceNode(node_id=text, text=text, score=0.5, metadata={"a": text, text: 1, "deep": [{"b": (text,)}]}),
            SourceNode(node_id="n2", text=None, metadata={"n": 3}),
        ),
        expected_ids=(text,),
        case_id=text,
        model=text,
        prompt_version=text,
        index_version=text,
        category=text,
        session_id=text,
        user_id=text,
        language=text,
        tags={"tier": text, text: "x"},
    )


def run(privacy: Privacy, record: Record) -> tuple[Any, list[str]]:
    notes: list[str] = []
    for step in privacy.steps():
        record = step(record, notes.append)
    return record, notes


def test_without_settings_there_is_nothing_to_do() -> None:
    assert Privacy().steps() == ()


# -- hooks -------------------------------------------------------------------------------------------------------------


def test_a_hook_sees_every_text() -> None:
    seen: set[str] = set()

    def hook(text: str, field: str) -> str:
        if SECRET in text:
            seen.add(field)
        return text.replace(SECRET, "***")

    record, notes = run(Privacy(redact=[hook]), full(SECRET))
    assert notes == []
    assert SECRET not in record.model_dump_json()
    assert seen == {
        "query", "response", "error", "reference", "history", "history.role", "source_nodes.node_id",
        "source_nodes.text", "source_nodes.metadata", "source_nodes.metadata.a", "source_nodes.metadata.deep",
        "expected_ids", "case_id", "model", "prompt_version", "index_version", "category", "session_id", "user_id",
        "language", "tags", "tags.tier",
    }  # fmt: skip
    assert (record.query, record.tags["tier"], record.source_nodes[0].score) == ("***", "***", 0.5)


def test_an_id_becomes_a_pseudonym_that_still_joins() -> None:
    record, _ = run(Privacy(redact=["personal_data"], hash_key="k" * 16), full(SECRET))
    again, _ = run(Privacy(redact=["personal_data"], hash_key="k" * 16), full(SECRET))
    assert record.user_id == record.expected_ids[0] == record.source_nodes[0].node_id == again.user_id
    assert record.user_id.startswith("id-")
    assert record.source_nodes[1].node_id == "n2"


def test_hooks_run_in_order_and_take_one_argument_or_two() -> None:
    record, _ = run(
        Privacy(redact=[str.upper, lambda text, field: text.replace("B", field[0]), "personal_data"]),
        make_trace(query=f"b {SECRET}"),
    )
    assert record.query == f"q {EMAIL}"


def test_feedback_and_parts_too() -> None:
    feedback = Feedback(feedback_id="f", trace_id="t", app="a", comment=f"ask {SECRET}", event_time=NOW)
    assert run(Privacy(redact=["personal_data"]), feedback)[0].comment == f"ask {EMAIL}"
    part = TracePart(trace_id="t", app="a", event_time=NOW, response=SECRET)
    changed, _ = run(Privacy(redact=["personal_data"]), part)
    assert (changed.response, changed.query, changed.source_nodes) == (EMAIL, None, None)


@pytest.mark.parametrize("failure", [ValueError(SECRET), RecursionError(), SystemExit(), None])
def test_a_hook_that_fails_masks_the_field_and_is_counted(failure: BaseException | None) -> None:
    def hook(text: str) -> Any:
        if SECRET in text:
            if failure is not None:
                raise failure
            return None
        return text

    record, notes = run(Privacy(redact=[hook]), make_trace(query=f"ask {SECRET}", response="fine"))
    assert (record.query, record.response) == (FAILED, "fine")
    assert notes == ["redaction_failed"]


def test_what_a_hook_gives_is_mended_where_the_wire_would_refuse_it() -> None:
    record, _ = run(Privacy(redact=[lambda text: f"\ud800{text * 200}"]), make_trace(query="q", category="cat"))
    assert record.query.startswith("\ufffdq")
    assert len(record.category) == 256
    Trace.model_validate_json(record.model_dump_json())


def test_keys_that_become_the_same_are_both_kept() -> None:
    record, _ = run(
        Privacy(redact=["personal_data"]), make_trace(query="q", tags={SECRET: "1", "joe@example.com": "2"})
    )
    assert record.tags == {EMAIL: "1", f"{EMAIL} (2)": "2"}


def test_the_end_of_a_text_that_was_cut_before_is_not_trusted() -> None:
    """Half an address has no form that a pattern could know."""
    cut = "x" * 900 + " jane@exam" + CUT_MARK
    record, _ = run(
        Privacy(redact=["personal_data"]),
        make_trace(query="q", tags={"t": cut}, category="c" * 250 + "jane@e", response="y" * (MOST_CHARS + 5)),
    )
    assert "jane" not in record.model_dump_json()
    assert record.tags["t"].endswith(CUT_MARK)
    assert record.truncated
    assert len(record.response) <= MOST_CHARS


# -- the allow-list ----------------------------------------------------------------------------------------------------


def test_only_what_is_allowed_leaves() -> None:
    trace = full(SECRET).model_copy(update={"query": "q", "latency_ms": 5.0})
    record, _ = run(Privacy(allow_fields=["query", "latency_ms"]), trace)
    assert SECRET not in record.model_dump_json()
    assert (record.query, record.latency_ms, record.status, record.trace_id) == ("q", 5.0, "error", "t1")
    record, _ = run(Privacy(allow_fields=[]), trace)
    assert (record.query, record.response, record.source_nodes, record.tags) == ("", None, (), {})
    Trace.model_validate_json(record.model_dump_json())


def test_parts_of_tags_and_nodes_can_be_allowed() -> None:
    node = SourceNode(node_id="n", text="t", score=0.5, metadata={"source": "s", "author": SECRET})
    trace = make_trace(query="q", source_nodes=(node,), tags={"tier": "paid", "who": SECRET})
    names = ["tags.tier", "source_nodes.score", "source_nodes.metadata.source"]
    record, _ = run(Privacy(allow_fields=names), trace)
    assert record.tags == {"tier": "paid"}
    assert record.source_nodes == (SourceNode(score=0.5, metadata={"source": "s"}),)
    record, _ = run(Privacy(allow_fields=["source_nodes", "tags"]), trace)
    assert (record.source_nodes, record.tags) == ((node,), {"tier": "paid", "who": SECRET})


def test_parts_and_feedback_keep_to_the_list_as_well() -> None:
    part = TracePart(trace_id="t", app="a", event_time=NOW, query="q", response=SECRET)
    record, _ = run(Privacy(allow_fields=["query"]), part)
    assert (record.query, record.response, record.source_nodes) == ("q", None, None)
    feedback = Feedback(feedback_id="f", trace_id="t", app="a", value=1.0, comment=SECRET, event_time=NOW)
    record, _ = run(Privacy(allow_fields=["query"]), feedback)
    assert (record.value, record.comment) == (1.0, None)


# -- lengths and hashes ------------------------------------------------------------------------------------------------


def test_without_texts_their_lengths_and_hashes_are_left() -> None:
    digester = Digester("k" * 16)
    record, notes = run(Privacy(capture_text=False, hash_key="k" * 16), full(SECRET))
    assert notes == []
    assert SECRET not in record.model_dump_json()
    assert (record.query, record.response, record.error, record.reference) == ("", None, None, None)
    assert record.tags["query_chars"] == str(len(SECRET))
    assert record.tags["response_hash"] == record.tags["query_hash"] == digester.hash(SECRET)
    assert (record.user_id, record.model) == (digester.pseudonym(SECRET), EMAIL)
    first, second = record.source_nodes
    assert (first.text, second.text, first.score, second.metadata) == (None, None, 0.5, {"n": 3})
    assert set(first.metadata) >= {"a", "deep", "text_chars", "text_hash"}
    assert [turn.content for turn in record.history] == ["", ""]
    assert record.history[0].role == "user"
    Trace.model_validate_json(record.model_dump_json())


def test_equal_texts_have_equal_hashes_under_one_key_and_others_under_another() -> None:
    trace = make_trace(query="same", response="same", source_nodes=(SourceNode(node_id="n", text="same"),))
    hashes = set()
    for key in ("a" * 16, "a" * 16, "b" * 16, None, None):
        record, _ = run(Privacy(capture_text=False, hash_key=key), trace)
        assert (record.tags["query_chars"], record.source_nodes[0].metadata["text_chars"]) == ("4", 4)
        assert record.tags["query_hash"] == record.tags["response_hash"]
        assert record.tags["query_hash"] == record.source_nodes[0].metadata["text_hash"]
        hashes.add(record.tags["query_hash"])
    assert len(hashes) == 4  # the two random keys differ


def test_labels_named_one_by_one_stay_and_what_no_one_named_does_not() -> None:
    trace = make_trace(query="q", tags={"tier": "paid", "anser": "a whole answer under a wrong name"})
    record, _ = run(Privacy(capture_text=False, allow_fields=["query", "tags", "tags.tier"]), trace)
    assert (record.query, record.tags["tier"]) == ("", "paid")
    assert record.tags["anser"].startswith("hmac-sha256:")


def test_a_comment_and_a_part_without_texts() -> None:
    feedback = Feedback(feedback_id="f", trace_id="t", app="a", value=0.0, comment=SECRET, event_time=NOW)
    record, _ = run(Privacy(capture_text=False), feedback)
    assert (record.value, record.comment[:12]) == (0.0, "hmac-sha256:")
    part = TracePart(trace_id="t", app="a", event_time=NOW, response=SECRET)
    record, _ = run(Privacy(capture_text=False), part)
    assert (record.query, record.response, record.tags["response_chars"]) == (None, None, str(len(SECRET)))


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"redact": "personal_data"}, "redact: str is not a list"),
        ({"redact": ["nowhere.to:be_found"]}, "redact: 'nowhere.to:be_found' could not be imported"),
        ({"redact": ["math:pi"]}, "redact: 'math:pi' is not a function"),
        ({"allow_fields": ["query", "anser"]}, "allow_fields: 'anser' is no field: choose from query"),
        ({"allow_fields": ["source_nodes.colour"]}, "'source_nodes.colour' is no field"),
        ({"allow_fields": "query"}, "allow_fields: str is not a list"),
        ({"capture_text": "no"}, "capture_text: 'no' is neither"),
        ({"hash_key": "short"}, "hash_key: is not a text of at least 16"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Privacy(**settings)
    assert words in str(refused.value)
    assert "short" not in str(refused.value)


def test_the_key_is_in_no_repr() -> None:
    privacy = Privacy(capture_text=False, hash_key="0123456789abcdef")
    assert "0123456789abcdef" not in repr(privacy) + repr(privacy.steps()) + repr(Digester("0123456789abcdef"))
