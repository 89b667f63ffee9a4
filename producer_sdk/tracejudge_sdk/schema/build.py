"""The JSON Schema of a record, made from the models that read it, with the meaning of each field in words."""

from __future__ import annotations

from typing import Any, Final

from pydantic import TypeAdapter

from tracejudge_sdk.trace import EARLIEST, LATEST, SCHEMA_VERSION, Record

_MEANING: Final = {
    "schema_version": "Version of this contract. Unknown fields are ignored and additive changes do not raise it.",
    "kind": "trace: a whole answer; part: some fields of an answer to come; feedback: what was said about it later.",
    "trace_id": "Id of the served answer, also the record key on the queue. UUIDv7 is a good choice.",
    "feedback_id": "Id of this feedback; sent again, it replaces what was said.",
    "app": "The service that answered.",
    "environment": "Where it runs.",
    "version": "Release of the service.",
    "event_time": (
        f"When the answer was served: RFC 3339 with a zone, kept to the millisecond, from {EARLIEST:%Y-%m-%d} to "
        f"before {LATEST:%Y-%m-%d}. Never a number."
    ),
    "query": "What was asked.",
    "response": "What was answered, the final text; null when there was no answer.",
    "status": "incomplete: the caller stopped before the answer was whole.",
    "error": "What went wrong, where status is error.",
    "source_nodes": "The retrieved passages in the order shown to the generator.",
    "node_id": "Id of the passage in its index.",
    "text": "The passage; null when only its id is known. A node without text is never judged as text.",
    "score": "Retrieval score, finite, or null.",
    "metadata": "Anything JSON can hold about the passage, nested up to 64 levels.",
    "history": "Earlier turns of the conversation, oldest first.",
    "reference": "The right answer, where the service knows it.",
    "expected_ids": "The ids of the right passages, where the service knows them.",
    "case_id": "Names the same question across pipelines.",
    "latency_ms": "From question to answer, in milliseconds.",
    "model": "The generator.",
    "user_id": "A pseudonym.",
    "language": "Of the question, as a BCP 47 tag.",
    "tags": "Anything else to slice by.",
    "truncated": "Texts were cut to fit the record limit.",
    "lossy": "Something was coerced or left out on the way here.",
    "head_probability": "Chance with which the producer kept this trace; its weight is one over it.",
    "sdk": "name/version of the producer's library.",
    "final": "No further part follows.",
    "value": "A number; thumbs are 1 and 0.",
    "comment": "What was said.",
}


def record_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12."""
    schema = TypeAdapter(Record).json_schema(mode="validation", ref_template="#/$defs/{model}")
    for definition in schema["$defs"].values():
        # pydantic's titles repeat the names, and its zero lengths say nothing.
        _strip(definition)
        for name, field in definition["properties"].items():
            if name in _MEANING:
                field["description"] = _MEANING[name]
        if "kind" in definition["properties"]:
            # They have defaults in Python and must be said on the wire.
            definition["required"] = ["schema_version", "kind", *definition["required"]]
            del definition["properties"]["schema_version"]["default"], definition["properties"]["kind"]["default"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tracejudge record, schema_version {SCHEMA_VERSION}",
        "description": "One JSON object in UTF-8 a record. Types are strict; texts hold no lone surrogates.",
        "anyOf": schema["anyOf"],
        "$defs": schema["$defs"],
    }


def _strip(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _strip(item)
    elif isinstance(value, dict):
        if isinstance(value.get("title"), str):
            del value["title"]
        if value.get("minLength") == 0:
            del value["minLength"]
        if value.get("propertyNames") == {"minLength": 0}:
            del value["propertyNames"]
        for item in value.values():
            _strip(item)
