"""Tables in narrow terminals: words stay whole, and rows become blocks where they do not fit."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone

from rich.console import Console

from tracejudge.reports import RateLine
from tracejudge.scores import JudgeId
from tracejudge.windows import Window
from tracejudge_consumer.terminal.rendering import table
from tracejudge_consumer.views.rates import rates_table

ID = "01a2295e-279c-756e-a4ee-9c155d73739d"
FOUND = [("served", "left"), ("trace", "left"), ("question", "left"), ("n_eff", "right")]


def shown(renderable: object, width: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width).print(renderable)
    lines = stream.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    return [line.rstrip() for line in lines]


def test_an_id_is_not_cut_up_while_other_words_can_go_to_the_next_line() -> None:
    lines = shown(table("Found", FOUND, [["2026-11-29 22:12:46", ID, "How do I reset router 7?", "12"]]), 76)
    assert any(ID in line for line in lines)
    assert any(line.endswith("12") for line in lines)
    assert all(any(word in line for line in lines) for word in ("2026-11-29", "22:12:46", "router"))


def test_rows_become_blocks_where_their_words_do_not_fit_beside_each_other() -> None:
    lines = shown(table("Found", FOUND, [["2026-11-29 22:12:46", ID, "How do I reset it?", "12"]] * 2), 50)
    assert lines[0] == "Found"
    assert lines[1] == lines[5] == "2026-11-29 22:12:46"
    assert lines[2] == f"  trace     {ID}"
    assert lines[4] == "  n_eff     12"


def test_a_text_without_blanks_is_folded_in_both_forms() -> None:
    row = ["2026-11-29 22:12:46", "x" * 300, "word", "12"]
    assert sum(line.count("x") for line in shown(table("Found", FOUND, [row]), 76)) == 300
    assert sum(line.count("x") for line in shown(table("Found", FOUND, [row]), 40)) == 300


def test_a_table_of_no_rows_and_a_wide_one_keep_one_line_of_headings() -> None:
    assert len(shown(table("Found", FOUND, []), 20)) >= 2
    assert shown(table("Found", FOUND, [["a", "b", "c d", "1"]]), 80)[1:] == [
        "served  trace  question  n_eff",
        "a       b      c d           1",
    ]


def test_windows_without_data_on_end_are_one_line_that_says_how_many() -> None:
    start = datetime(2026, 11, 29, tzinfo=timezone.utc)
    lines = [
        RateLine(
            window=Window(start=start + timedelta(hours=hour), end=start + timedelta(hours=hour + 1)),
            judge_name="lexical", judge_id=JudgeId("lexical@d8a999c5c8b7"), group={"version": version},
            heuristic=True, rate=None,
        )
        for version in ("v1", "v2") for hour in range(5)
    ]  # fmt: skip
    wide = shown(rates_table(lines, group_by=("version",), min_effective=20.0), 140)
    assert [line.count("5 windows") for line in wide[2:]] == [1, 1]
    narrow = shown(rates_table(lines[:1], group_by=("version",), min_effective=20.0, bars=False), 80)
    assert "no data" in " ".join(narrow)
    assert "×" not in " ".join(narrow)
