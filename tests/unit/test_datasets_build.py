"""Datasets out of traffic: which rows, without whom, the same every time."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("datasketch", reason="near duplicates need the extra 'datasets'")

from tracejudge.datasets import Line, read_lines
from tracejudge.datasets.build import BuildPolicy, Built, build, case_of
from tracejudge.datasets.labelled_rag import labelled_rag
from tracejudge.datasets.llama_index import load
from tracejudge.datasets.near import NearDuplicates
from tracejudge.datasets.versions import diff, read_dataset, write_version
from tracejudge.errors import CheckFailed
from tracejudge.scores import Label, TraceKey
from tracejudge.testing import make_trace
from tracejudge_sdk.digests import Digester
from tracejudge_sdk.trace import Trace

WORDS = [
    f"{a}{b}" for a in ("red", "blue", "green", "grey", "pink") for b in ("owl", "fox", "elk", "cod", "bee", "ant")
]


def question(number: int) -> str:
    chance = random.Random(number)
    return " ".join(chance.sample(WORDS, 8)) + "?"


def traffic(days: int = 3, a_day: int = 400) -> list[Trace]:
    """Nine in ten are of the common category."""
    return [
        make_trace(
            day * a_day + n,
            event_time=make_trace().event_time.replace(hour=0) + timedelta(days=day, seconds=n),
            query=question(day * a_day + n),
            category="rare" if n % 10 == 0 else "common",
        )
        for day in range(days)
        for n in range(a_day)
    ]


def built(traces: Sequence[Trace], policy: BuildPolicy, labels: dict[TraceKey, list[Label]] | None = None) -> Built:
    return build(lambda: traces, policy, labels=labels or {}, digester=Digester("key"))


def label(trace: Trace, value: float, source: str = "ann") -> Label:
    return Label(
        environment=trace.environment, app=trace.app, trace_id=trace.trace_id, criterion="faithfulness", value=value,
        source=source, labelled_at=trace.event_time,
    )  # fmt: skip


def test_every_day_and_stratum_gives_its_share() -> None:
    found = built(traffic(), BuildPolicy(share=0.1))
    per_cell = Counter((row.trace.event_time.date(), row.trace.category) for row in found.rows)
    assert set(per_cell.values()) == {36, 4}
    assert len(per_cell) == 6
    assert [row.trace.event_time for row in found.rows] == sorted(row.trace.event_time for row in found.rows)


def test_a_rare_stratum_has_one_row_and_a_limit_lowers_the_share() -> None:
    small = built(traffic(), BuildPolicy(share=0.001))
    assert Counter(row.trace.category for row in small.rows) == {"rare": 3, "common": 3}
    limited = built(traffic(), BuildPolicy(share=1.0, at_most=120))
    assert 110 <= len(limited.rows) <= 120
    assert limited.share < 0.11
    cells = built(traffic(), BuildPolicy(share=1.0, at_most=4, stratify=("category",)))
    assert len(cells.rows) == 4


def test_the_same_traffic_gives_the_same_rows_and_a_larger_share_only_adds() -> None:
    traces = traffic()

    def ids(share: float, seed: int = 0) -> set[str]:
        return {row.trace.trace_id for row in built(traces, BuildPolicy(share=share, seed=seed)).rows}

    assert ids(0.05) == ids(0.05) < ids(0.1)
    assert ids(0.05) != ids(0.05, seed=1)


def test_duplicates_go_exactly_and_nearly_and_a_labelled_one_stays() -> None:
    base = "How many users may one account of the large plan have in total?"
    same = "  how many USERS may one account of the large plan have in total? "
    near = "How many users may an account of the large plan have in total?"
    other = "Where can I see the invoices of last year?"
    traces = [make_trace(n, query=text) for n, text in enumerate((base, same, near, other))]
    everything = BuildPolicy(share=1.0)
    found = built(traces, everything)
    assert (found.exact_duplicates, found.near_duplicates) == (1, 1)
    assert [row.trace.query for row in found.rows] == [base, other]
    labelled = built(traces, everything, {TraceKey("production", "shop", "t-000002"): [label(traces[2], 1.0)]})
    assert [row.trace.query for row in labelled.rows] == [near, other]
    assert len(built(traces, BuildPolicy(share=1.0, near=1.0)).rows) == 3


def test_near_is_the_jaccard_similarity_itself() -> None:
    """The index only proposes: whatever it says, what is dropped is as similar as was asked for."""
    chance = random.Random(11)
    texts = []
    for _ in range(120):
        words = question(chance.randint(0, 30)).split()
        if chance.random() < 0.6:
            words[chance.randrange(len(words))] = chance.choice(WORDS)
        texts.append(" ".join(words))

    def pieces(text: str) -> set[str]:
        padded = f" {' '.join(text.casefold().split())} "
        return {padded[i : i + 4] for i in range(len(padded) - 3)}

    seen, kept, missed = NearDuplicates(0.7), list[str](), 0
    for text in texts:
        mine = pieces(text)
        nearest = max((len(mine & pieces(k)) / len(mine | pieces(k)) for k in kept), default=0.0)
        if seen.seen(text):
            assert nearest >= 0.7
        else:
            missed += nearest >= 0.7
            kept.append(text)
    assert 20 < len(kept) < 110
    assert missed <= 2  # of an estimate by 128 hashes


def test_personal_data_is_removed_and_ids_of_people_go() -> None:
    trace = make_trace(
        0,
        query="I am ann@example.org, call +49 170 1234567",
        response="Your card 4111 1111 1111 1111 is fine.",
        user_id="ann",
        session_id="s-1",
        source_nodes=[{"node_id": "n", "text": "Write to bob@example.org.", "score": 0.5}],
    )
    (row,) = built([trace], BuildPolicy(share=1.0)).rows
    text = row.trace.model_dump_json()
    for secret in ("ann@example.org", "1234567", "4111", "bob@example.org", "s-1"):
        assert secret not in text
    assert row.trace.user_id is None
    (kept,) = built([trace], BuildPolicy(share=1.0, personal=True)).rows
    assert kept.trace.user_id == "ann"


def test_labels_are_carried_and_every_labelled_trace_is_in_it(tmp_path: Path) -> None:
    traces = traffic(days=1)
    labels = {
        TraceKey("production", "shop", trace.trace_id): [label(trace, 1.0), label(trace, float(n % 2), "bob")]
        for n, trace in enumerate(traces[:30])
    }
    found = built(traces, BuildPolicy(share=0.01), labels)
    assert found.labelled == 30
    written = write_version(tmp_path, found.rows, {})
    lines = [line for line in read_lines(written.path) if isinstance(line, Line)]
    carried = {line.trace.trace_id: line.labels for line in lines if line.labels}
    assert len(carried) == 30
    assert {one.source for found_labels in carried.values() for one in found_labels} == {"ann+bob"}
    assert {one.value for found_labels in carried.values() for one in found_labels} == {0.5, 1.0}


def test_versions_are_numbered_never_changed_and_told_apart(tmp_path: Path) -> None:
    traces = traffic(days=1)
    first = write_version(tmp_path, built(traces, BuildPolicy(share=0.02)).rows, {"note": 1})
    again = write_version(tmp_path, built(traces, BuildPolicy(share=0.02)).rows, {"note": 2})
    assert (first.version, first.new, again.version, again.new) == (1, True, 1, False)
    larger = built(traces, BuildPolicy(share=0.05)).rows
    second = write_version(tmp_path, larger, {})
    assert second.path.name == "v0002.jsonl"
    assert json.loads(second.path.with_suffix(".manifest.json").read_text())["sha256"] == second.sha256
    told = diff(first.path, second.path)
    assert (told.removed, told.changed, told.relabelled) == ((), (), ())
    assert told.after - told.before == len(told.added) > 0
    changed = [row._replace(trace=row.trace.model_copy(update={"response": "Other."})) for row in larger[:1]]
    changed = [changed[0]._replace(labels=(label(changed[0].trace, 0.0),)), *larger[2:]]
    third = write_version(tmp_path, changed, {})
    told = diff(second.path, third.path)
    case = case_of(larger[0].trace)
    assert (told.changed, told.relabelled, told.removed) == ((case,), (case,), (case_of(larger[1].trace),))
    (tmp_path / "bad.jsonl").write_text("{\n")
    with pytest.raises(CheckFailed, match="line 1"):
        read_dataset(tmp_path / "bad.jsonl")


def example_of(tmp_path: Path) -> dict[str, Any]:
    traces = [
        make_trace(0, reference="Ten."),
        make_trace(1, query="And the small one?", model="m"),
        make_trace(2, query="What colour is the sky today?"),
    ]
    labels = {TraceKey("production", "shop", "t-000001"): [label(traces[1], 1.0)]}
    written = write_version(tmp_path, built(traces, BuildPolicy(share=1.0), labels).rows, {})
    return labelled_rag(read_dataset(written.path).values())


def test_the_form_of_llama_index(tmp_path: Path) -> None:
    by_query = {one["query"]: one for one in example_of(tmp_path)["examples"]}
    first = by_query["What is the limit of plan 0?"]
    assert first["reference_answer"] == "Ten."
    assert first["reference_answer_by"] == {"model_name": "", "type": "human"}
    assert first["reference_contexts"] == ["The limit of plan 0 is ten users per account."]
    called_good = by_query["And the small one?"]
    assert called_good["reference_answer_by"] == {"model_name": "m", "type": "ai"}
    assert by_query["What colour is the sky today?"]["reference_answer"] == ""  # nobody said that its answer is right


def test_llama_index_itself_reads_it_in_the_form_of_its_release(tmp_path: Path) -> None:
    """Whatever release is installed: none is without one of the two classes."""
    examples = example_of(tmp_path)["examples"]
    loaded = load(tmp_path / "v0001.jsonl")
    if type(loaded).__name__ == "LabelledRagDataset":
        assert [json.loads(one.model_dump_json()) for one in loaded.examples] == examples
    else:
        assert type(loaded).__name__ == "QueryResponseDataset"
        assert loaded.qr_pairs == [(one["query"], one["reference_answer"]) for one in examples]
        assert {case.startswith("q-") for case in loaded.queries} == {True}
