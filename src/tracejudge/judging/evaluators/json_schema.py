"""Whether a response is JSON, and JSON of the shape that was promised."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tracejudge.errors import MissingExtra
from tracejudge.judging.evaluators.base import Facts, FactsEvaluator
from tracejudge.judging.replies.judgement import FEEDBACK_CHARS, Judgement

_CODE_FENCE: Final = re.compile(r"\A```[a-zA-Z]*[ \t]*\n(.*?)\n?```\Z", re.DOTALL)
_MOST_FAULTS: Final = 5


class JsonSchemaEvaluator(FactsEvaluator):
    """Passing when the whole response is one JSON value that meets `json_schema`.

    One code fence around it is taken off, unless `bare`. References outside the schema are not followed: judging makes
    no call to an address that a setting or a text names. Raises MissingExtra without the package `jsonschema`, and
    ValueError for a schema that is none.
    """

    needs = ("response",)

    def __init__(self, *, json_schema: dict[str, Any], bare: bool = False) -> None:
        try:
            from jsonschema.exceptions import SchemaError
            from jsonschema.validators import validator_for
            from referencing import Registry
        except ImportError as error:
            raise MissingExtra("the judge kind 'json_schema'", extra="schema") from error
        validator_class = validator_for(json_schema)
        try:
            validator_class.check_schema(json_schema)
        except SchemaError as error:
            raise ValueError(f"json_schema: is no JSON schema: {error.message}") from None
        self._validator = validator_class(json_schema, registry=Registry())
        self._bare = bare

    async def judge(self, facts: Facts) -> Judgement:
        text = facts.response.strip()
        if not self._bare and (fenced := _CODE_FENCE.match(text)):
            text = fenced[1]
        try:
            value = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            return Judgement(passing=False, score=0.0, feedback=f"is no JSON: {error}"[:FEEDBACK_CHARS])
        faults = []
        for fault in self._validator.iter_errors(value):
            faults.append(f"{fault.json_path}: {fault.message[:200]}")
            if len(faults) == _MOST_FAULTS:
                break
        return Judgement(
            passing=not faults,
            score=float(not faults),
            feedback=("; ".join(faults) or "meets the schema")[:FEEDBACK_CHARS],
        )


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
