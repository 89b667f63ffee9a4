"""A judge's identity: what could change a verdict is in it, nothing else is, and a patch release keeps it."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.kinds import kind_spec
from tests.support.panels import lexical_spec, llm_spec
from tracejudge.judging import JudgeSpec, check_caps, content_hash, estimate
from tracejudge.judging.replies.verdict import PARSER
from tracejudge.judging.specs.spec import TYPICAL_MOST_REPLY_TOKENS
from tracejudge.testing import make_trace

GOLDEN: dict[str, tuple[dict[str, Any], str]] = {
    "lexical": ({"kind": "lexical"}, "lexical@d8a999c5c8b7"),
    "lexical .7": ({"kind": "lexical", "threshold": 0.7}, "lexical@e286a72a77c0"),
    "faithfulness": (
        {"kind": "faithfulness", "base_url": "https://judge.example/v1", "model": "gpt-x"},
        "faithfulness@a4ad4d559132",
    ),
    "own prompt": (
        {
            "kind": "faithfulness",
            "base_url": "https://judge.example/v1",
            "model": "gpt-x",
            "prompt": "Is {response} in {context}?",
        },
        "faithfulness@0d8894a44568",
    ),
    "any LLM": (
        {"kind": "faithfulness", "llm": "llama_index.llms.openai:OpenAI", "llm_options": {"model": "gpt-x"}},
        "faithfulness@84dc947c0763",
    ),
    "own class": ({"kind": "acme.judges:Polite", "options": {"strict": True}}, "own@cbb7dcdb5994"),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_the_judge_ids_of_this_release_stay(case: str) -> None:
    """A failing line means that every user's charts start anew: raise `code` on purpose, or put the change back."""
    fields, judge_id = GOLDEN[case]
    assert JudgeSpec.model_validate({"name": judge_id.partition("@")[0], **fields}).judge_id() == judge_id


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"temperature": 0.5},
        {"temperature": None},
        {"max_tokens": 100},
        {"extra_body": {"seed": 7}},
        {"context_window_tokens": 4096},
        {"prompt": "STRICT-V2 {query_str} || {context_str}"},
    ],
)
def test_what_could_change_a_verdict_changes_the_id(change: dict[str, Any]) -> None:
    assert llm_spec(**change).judge_id() != llm_spec().judge_id()


@pytest.mark.parametrize(
    "change",
    [
        {"base_url": "https://gateway.example/v1"},
        {"api_key_env": "OTHER_KEY"},
        {"timeout_s": 5.0},
        {"max_attempts": 1},
        {"concurrency": 64},
        {"max_calls_per_h": 7},
        {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 2.0, "max_usd_per_day": 3.0},
        {"measures": "groundedness"},
    ],
)
def test_what_cannot_change_a_verdict_keeps_the_id(change: dict[str, Any]) -> None:
    assert llm_spec(**change).judge_id() == llm_spec().judge_id()


def test_options_that_say_how_to_reach_a_model_are_no_part_of_the_id() -> None:
    def spec(**options: Any) -> JudgeSpec:
        return JudgeSpec.model_validate(
            {"name": "f", "kind": "faithfulness", "llm": "acme.llms:Acme", "llm_options": {"model": "m", **options}}
        )

    assert spec(timeout=3, api_base="https://elsewhere.example").judge_id() == spec().judge_id()
    assert spec(top_p=0.1).judge_id() != spec().judge_id()


def test_the_id_of_an_own_class_follows_its_code_number_and_options() -> None:
    def spec(**fields: Any) -> JudgeSpec:
        return JudgeSpec.model_validate({"name": "own", "kind": "acme.judges:Polite", **fields})

    ids = {
        spec().judge_id(),
        spec(code=2).judge_id(),
        spec(options={"strict": True}).judge_id(),
        spec(threshold=0.9).judge_id(),
        spec(scale=(1, 5)).judge_id(),
        spec(needs=("query",)).judge_id(),
    }
    assert len(ids) == 6


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "lexcal"}, "neither one of 'lexical', 'faithfulness', "),
        ({"name": "a@b"}, "name"),
        ({"kind": "faithfulness"}, "give base_url and model"),
        ({"kind": "faithfulness", "base_url": "http://j/v1"}, "give base_url and model"),
        ({"model": "m", "base_url": "http://j/v1"}, "calls no model"),
        ({"kind": "faithfulness", "base_url": "http://u:p@j/v1", "model": "m"}, "api_key_env"),
        ({"kind": "faithfulness", "base_url": "j/v1", "model": "m"}, "not an http"),
        ({"kind": "faithfulness", "base_url": "http://j/v1?key=0123", "model": "m"}, "api_key_env"),
        ({"kind": "faithfulness", "llm": "OpenAI"}, "not an import path"),
        ({"kind": "faithfulness", "llm": "a:B", "llm_options": {"api_key": "sk-1"}}, "looks like a secret"),
        ({"kind": "faithfulness", "llm": "a:B", "llm_options": {"x": {1}}}, "plain JSON"),
        ({"kind": "faithfulness", "base_url": "http://j/v1", "model": "m", "threshold": 0.5}, "answers yes or no"),
        (
            {"kind": "faithfulness", "base_url": "http://j/v1", "model": "m", "max_usd_per_day": 1.0},
            "usd_per_million_input_tokens",
        ),
        (
            {"kind": "faithfulness", "base_url": "http://j/v1", "model": "m", "prompt": "{response} {contxt}"},
            "{contxt}",
        ),
        ({"kind": "faithfulness", "base_url": "http://j/v1", "model": "m", "prompt": "{response}"}, "{context}"),
        ({"prompt": "{response}"}, "no prompt of ours"),
        ({"treshold": 0.5}, "treshold"),
        ({"threshold": 1.5}, "threshold"),
        ({"options": {"a": 1}}, "takes none"),
    ],
)
def test_a_wrong_spec_says_what_is_wrong(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        JudgeSpec.model_validate({"name": "lexical", "kind": "lexical", **fields})
    assert said in str(caught.value)


STOCK = "llama_index.core.evaluation"
MODEL = {"base_url": "http://j/v1", "model": "m"}
PRICES = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 2.0}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": f"{STOCK}:FaithfulnessEvaluator"}, "global Settings.llm"),
        ({"kind": f"{STOCK}:FaithfulnessEvaluator", "calls_model": False}, "global Settings.llm"),
        ({"kind": f"{STOCK}:SemanticSimilarityEvaluator", "max_usd_per_day": 1.0, **PRICES}, "cannot be seen"),
        ({"kind": "acme.judges:Polite", "max_usd_per_day": 1.0, **PRICES}, "cannot be seen"),
        ({"kind": "acme.judges:Polite", "base_url": "http://j/v1", "model": "m", "calls_model": False}, "remove one"),
        ({"kind": "lexical", "calls_model": True}, "fixed for kind"),
    ],
)
def test_calls_that_nobody_would_count_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        JudgeSpec.model_validate({"name": "own", **fields})
    assert said in str(caught.value)


def test_a_class_of_one_s_own_needs_a_cap_unless_it_says_that_it_calls_no_model() -> None:
    def faults(kind: str = "acme.judges:Polite", **fields: Any) -> list[str]:
        return check_caps([JudgeSpec.model_validate({"name": "own", "kind": kind, **fields})])

    (fault,) = faults()
    assert "max_calls_per_h" in fault
    assert "calls_model = false" in fault
    assert len(faults(calls_model=True)) == 1
    assert len(faults(f"{STOCK}:SemanticSimilarityEvaluator")) == 1
    assert faults(calls_model=False) == faults(max_calls_per_h=5) == []


def test_what_a_class_calls_by_itself_is_of_unknown_cost() -> None:
    own = JudgeSpec.model_validate({"name": "own", "kind": "acme.judges:Polite", **PRICES})
    (unknown,) = estimate([own], traces_per_day=100)
    assert (unknown.calls, unknown.input_tokens, unknown.usd) == (100, 0, None)
    (none,) = estimate([own.model_copy(update={"calls_model": False})], traces_per_day=100)
    assert (none.calls, none.usd) == (0, 0.0)


@pytest.mark.parametrize(
    "options",
    [
        {"default_headers": {"Authorization": "hunter2"}},
        {"default_headers": {"X-Api-Key": "hunter2"}},
        {"default_headers": {"x-goog-api-key": "hunter2"}},
        {"http": [{"headers": {"cookie": "hunter2"}}]},
        {"accessToken": "hunter2"},
        {"default_headers": {"X-Forwarded": "Bearer hunter2"}},
        {"default_headers": {"X-Forwarded": "sk-hunter2"}},
        {"headers": [["X-Forwarded", "bearer hunter2"]]},
        {"note": "use sk-hunter2hunter2hunter2 please"},
        {"api_base": "https://me:hunter2@judge.example/v1"},
        {"sk-hunter2hunter2hunter2": 1},
    ],
)
@pytest.mark.parametrize("field", ["llm_options", "extra_body", "options"])
def test_a_secret_is_found_at_any_depth_and_never_repeated(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        JudgeSpec.model_validate({"name": "own", "kind": "a.b:C", "llm": "a:B", "max_calls_per_h": 1, field: options})
    assert "secret" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://me:hunter2@j/v1", "me:hunter2@j/v1", "http://me:hunter2@[j/v1", "hunter2"])
def test_a_refused_url_is_not_repeated(url: str) -> None:
    with pytest.raises(ValidationError) as caught:
        JudgeSpec.model_validate({"name": "f", "kind": "faithfulness", "base_url": url, "model": "m"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "template", "missing"),
    [
        ("FaithfulnessEvaluator", "Is it so? YES or NO", "query_str"),
        ("FaithfulnessEvaluator", "{query_str} by {context}", "context_str"),
        ("CorrectnessEvaluator", "{query} {generated_answer}", "reference_answer"),
        ("GuidelineEvaluator", "{query} {guidelines}", "response"),
    ],
)
def test_a_stock_template_that_shows_nothing_to_judge_is_refused(kind: str, template: str, missing: str) -> None:
    fields = {"name": "s", "kind": kind, "base_url": "http://j/v1", "model": "m", "max_calls_per_h": 1}
    with pytest.raises(ValidationError, match=rf"eval_template: does not name \{{{missing}\}}, which {kind} fills in"):
        JudgeSpec.model_validate({**fields, "options": {"eval_template": template}})
    whole = "{query_str} {context_str} {query} {response} {generated_answer} {reference_answer} {guidelines}"
    assert JudgeSpec.model_validate({**fields, "options": {"eval_template": whole}}).stock


def test_ordinary_options_are_not_taken_for_secrets() -> None:
    options = {
        "eval_template": "Is this a task-oriented, risk-averse key-value store? Basic facts only.",
        "headers": {"X-Team": "search"},
        "stop": ["\n"],
        "max_tokens": 5,
    }
    spec = JudgeSpec.model_validate({"name": "own", "kind": "a.b:C", "options": options})
    assert spec.options == options


def test_the_parser_s_number_is_in_the_id_of_whoever_s_reply_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def ids() -> list[str]:
        names = ("FaithfulnessEvaluator", "CorrectnessEvaluator", "PairwiseComparisonEvaluator")
        fields = {"base_url": "http://j/v1", "model": "m"}
        return [JudgeSpec.model_validate({"name": "s", "kind": f"{STOCK}:{n}", **fields}).judge_id() for n in names]

    before = ids()
    monkeypatch.setattr("tracejudge.judging.specs.identity.PARSER", PARSER + 1)
    after = ids()
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert before[2] == after[2]
    kind = llm_spec().built_in
    assert kind is not None
    assert kind.parser == PARSER


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({}, 512),
        ({"max_tokens": None}, TYPICAL_MOST_REPLY_TOKENS),
        ({"max_tokens": None, "extra_body": {"max_completion_tokens": 9000}}, 9000),
    ],
)
def test_output_is_set_aside_even_where_nothing_bounds_it(fields: dict[str, Any], tokens: int) -> None:
    assert llm_spec(**fields).most_reply_tokens == tokens


def test_token_settings_are_not_taken_for_secrets() -> None:
    spec = JudgeSpec.model_validate(
        {
            "name": "f",
            "kind": "faithfulness",
            "llm": "a:B",
            "llm_options": {"max_tokens": 5},
            "extra_body": {"max_completion_tokens": 5},
        }
    )
    assert spec.llm_options == {"max_tokens": 5}


def test_a_judge_that_calls_a_model_without_a_cap_is_a_fault_that_names_the_keys_and_the_cost() -> None:
    uncapped = llm_spec(max_calls_per_h=None, usd_per_million_input_tokens=2.5, usd_per_million_output_tokens=10.0)
    (fault,) = check_caps([lexical_spec(), uncapped, llm_spec("capped")])
    assert "'faithful'" in fault
    assert "max_calls_per_h" in fault
    assert "max_usd_per_day" in fault
    assert "1,000 calls" in fault
    assert "USD" in fault


def test_a_cap_of_zero_is_a_cap() -> None:
    assert check_caps([llm_spec(max_calls_per_h=0)]) == []


def test_an_estimate_counts_calls_tokens_and_money() -> None:
    priced = llm_spec(usd_per_million_input_tokens=1.0, usd_per_million_output_tokens=1.0)
    specs = [priced, lexical_spec(), llm_spec("unpriced")]
    whole, free, unpriced = estimate(specs, traces_per_day=100)
    (half, *_) = estimate(specs, traces_per_day=50)
    assert (whole.calls, half.calls, free.calls) == (100, 50, 0)
    assert whole.usd is not None
    assert whole.usd == pytest.approx((whole.input_tokens + whole.output_tokens) / 1e6)
    assert half.usd == pytest.approx(whole.usd / 2, rel=1e-3)
    assert free.usd == 0.0
    assert unpriced.usd is None


def test_an_estimate_of_real_traces_counts_their_characters() -> None:
    short, long = make_trace(0), make_trace(1, response="x" * 36_000)
    (small,), (large,) = estimate([llm_spec()], traces=[short]), estimate([llm_spec()], traces=[long])
    assert large.input_tokens - small.input_tokens == pytest.approx(10_000, rel=0.01)


def test_equal_content_has_an_equal_hash_whatever_the_ids() -> None:
    same = [content_hash(make_trace(0)), content_hash(make_trace(0, trace_id="other", app="else"))]
    assert same[0] == same[1]
    others = [
        make_trace(0, response="No."),
        make_trace(0, query="Why?"),
        make_trace(0, source_nodes=[{"text": None}]),
        make_trace(0, source_nodes=[{"text": "a"}, {"text": "b"}]),
        make_trace(0, source_nodes=[{"text": "ab"}]),
        make_trace(0, reference="x"),
        make_trace(0, response=None),
    ]
    assert len({*map(content_hash, others), same[0]}) == len(others) + 1


def test_specs_are_read_without_loading_an_llm_library_or_an_http_client() -> None:
    code = (
        "import sys; from tracejudge.judging import JudgeSpec, check_caps, estimate;"
        "check_caps([JudgeSpec(name='l', kind='lexical')]);"
        "JudgeSpec(name='f', kind='faithfulness', base_url='http://j/v1', model='m').judge_id();"
        "print([name for name in sys.modules if name.partition('.')[0] in ('llama_index', 'aiohttp', 'openai')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_spec_survives_being_written_and_read() -> None:
    own = JudgeSpec.model_validate({"name": "own", "kind": "acme.judges:Polite", "calls_model": False})
    for spec in (lexical_spec(), llm_spec(), own):
        assert JudgeSpec.model_validate(spec.model_dump(mode="json")) == spec
    assert [spec.calls_model for spec in (lexical_spec(), llm_spec(), own)] == [False, True, False]


def test_a_prompt_may_stand_in_a_file_and_its_text_is_what_counts(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("Is {response} in {context}?\n", encoding="utf-8")
    fields = {"name": "f", "kind": "faithfulness", "base_url": "http://j/v1", "model": "m"}
    from_file = JudgeSpec.model_validate({**fields, "prompt_file": str(file)})
    written = JudgeSpec.model_validate({**fields, "prompt": "Is {response} in {context}?"})
    assert from_file == written
    assert from_file.judge_id() == written.judge_id()
    file.write_text("\ufeffIs {response} in {context}?\r\n", encoding="utf-8")
    assert JudgeSpec.model_validate({**fields, "prompt_file": str(file)}) == written, "as Windows editors save it"
    with pytest.raises(ValidationError, match="exclude each other"):
        JudgeSpec.model_validate({**fields, "prompt": "x", "prompt_file": str(file)})
    with pytest.raises(ValidationError, match="cannot be read"):
        JudgeSpec.model_validate({**fields, "prompt_file": str(tmp_path / "none.txt")})
    file.write_text("Is {response} in {contxt}?", encoding="utf-8")
    with pytest.raises(ValidationError, match=r"unknown variable \{contxt\}"):
        JudgeSpec.model_validate({**fields, "prompt_file": str(file)})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "guideline", **MODEL}, "guidelines: Field required"),
        ({"kind": "guideline", "options": {"guidelines": []}, **MODEL}, "guidelines: Tuple should have at least 1"),
        ({"kind": "guideline", "options": {"guideline": "x"}, **MODEL}, "guideline: Extra inputs"),
        ({"kind": "latency", "options": {"max_ms": 0}}, "greater than 0"),
        ({"kind": "length", "options": {}}, "give min, max or both"),
        ({"kind": "length", "options": {"min": 5, "max": 4}}, "no response could pass"),
        ({"kind": "regex", "options": {"pattern": "("}}, "no regular expression"),
        ({"kind": "regex", "options": {"pattern": "(a+)+$"}}, "run for ever"),
        ({"kind": "regex", "options": {"pattern": r"(?:\w+\s*)*!"}}, "run for ever"),
        ({"kind": "semantic_similarity", "options": {"embed_model": "MiniLM"}}, "import path"),
        ({"kind": "hit_rate", "options": {"k": 0}}, "greater than or equal to 1"),
        ({"kind": "refusal", "options": {"x": 1}}, "takes none, got x; options are for kinds that take some"),
        (
            {"kind": "lexical", "options": {"pass_threshold": 0.7}},
            "takes none, got pass_threshold; the least score that",
        ),
        ({"kind": "hit_rate", "model": "m", "base_url": "http://j/v1"}, "calls no model"),
        ({"kind": "relevancy"}, "give base_url and model"),
        (
            {"kind": "semantic_similarity", "options": {"embed_model": "a:B"}, "max_usd_per_day": 1.0, **PRICES},
            "cannot be seen",
        ),
        ({"kind": "correctness", "base_url": "http://j/v1", "model": "m", "prompt": "{response}"}, "does not name"),
    ],
)
def test_wrong_options_of_a_kind_say_what_is_wrong(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        JudgeSpec.model_validate({"name": "own", **fields})
    assert said in str(caught.value)


def test_an_entry_point_is_a_kind_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = metadata.EntryPoint(name="polite", value="acme.judges:Polite", group="tracejudge.judges")
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: [entry] if group == entry.group else [])
    by_name = JudgeSpec.model_validate({"name": "own", "kind": "polite"})
    by_path = JudgeSpec.model_validate({"name": "own", "kind": "acme.judges:Polite"})
    assert by_name == by_path
    assert by_name.judge_id() == by_path.judge_id()


def test_an_embedding_judge_needs_a_cap_until_it_says_that_it_calls_nothing_that_costs() -> None:
    fields = {"name": "near", "kind": "semantic_similarity", "options": {"embed_model": "a:B"}}
    assert len(check_caps([JudgeSpec.model_validate(fields)])) == 1
    assert check_caps([JudgeSpec.model_validate({**fields, "calls_model": False})]) == []
    assert check_caps([JudgeSpec.model_validate({**fields, "max_calls_per_h": 5})]) == []


def test_an_estimate_counts_repeats_and_both_orders() -> None:
    thrice, pair = kind_spec("relevancy", repeats=3), kind_spec("pairwise")
    assert [cost.calls for cost in estimate([thrice, pair], traces_per_day=100)] == [300, 200]


def test_a_stream_is_refused_since_no_verdict_could_be_read_from_it() -> None:
    with pytest.raises(ValidationError, match=r"extra_body\.stream"):
        JudgeSpec.model_validate(
            {
                "name": "f",
                "kind": "faithfulness",
                "base_url": "https://x/v1",
                "model": "m",
                "extra_body": {"stream": True},
            }
        )
