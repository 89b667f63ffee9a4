"""`tracejudge release check` where the two releases served another mix of tenants."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tracejudge.store import Store, StoredTrace
from tracejudge.testing import make_score, make_trace
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED, EXIT_UNDECIDED, EXIT_USAGE

START = datetime(2026, 3, 1, tzinfo=timezone.utc)
WINDOW = ("--since", "2026-03-01T00:00:00Z", "--until", "2026-03-02T00:00:00Z")


def serve(store: Store, version: str, tenants: dict[str, tuple[int, float]], **fields: Any) -> None:
    """Traces of each tenant, so many and of them a share passed: exact counts, no chance."""
    told = [(tenant, k < n * rate) for tenant, (n, rate) in tenants.items() for k in range(n)]
    random.Random(version).shuffle(told)
    traces, scores = [], []
    for number, (tenant, passed) in enumerate(told):
        place = {"trace_id": f"{version}-{number}", "version": version, "event_time": START + timedelta(seconds=number)}
        tags = {"tenant": tenant, "request": f"{version}-{number}"} if tenant else {}
        traces.append(StoredTrace(trace=make_trace(number, tags=tags, **place, **fields), ingested_at=START))
        scores.append(make_score(number, passed=passed, content_hash=f"{version}-{number}", **place))
    store.traces.insert(traces)
    store.scores.insert(scores)


def harder_mix(store: Store) -> None:
    """Equal quality within each tenant; the second release has more of the hard one's traffic."""
    serve(store, "v1", {"acme": (1600, 0.95), "globex": (400, 0.75)})
    serve(store, "v2", {"acme": (600, 0.95), "globex": (1400, 0.75)})


@pytest.fixture
def config(tmp_path: Path, store_url: str) -> str:
    path = tmp_path / "tracejudge.toml"
    path.write_text(f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n')
    return str(path)


def check(config: str, *more: str) -> int:
    return run(["release", "check", "v2", "--against", "v1", "--max-drop", "5", *WINDOW, "--config", config, *more])


def checked(config: str, capsys: pytest.CaptureFixture[str], *more: str, expect: int) -> Any:
    capsys.readouterr()
    assert check(config, "--json", *more) == expect
    return json.loads(capsys.readouterr().out)["check"]


def test_a_harder_mix_alone_is_worse_in_total_and_no_worse_within(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    harder_mix(store)
    total = checked(config, capsys, expect=EXIT_FAILED)
    (line,) = total["lines"]
    assert line["result"]["difference"]["value"] == pytest.approx(-0.10)
    assert total["mix_looked_at"] == ["category", "language", "tags.tenant"]  # a tag that is an id tells no mix
    mix = line["mix"]
    assert (mix["field"], mix["value"], mix["share_old"], mix["share_new"]) == ("tags.tenant", "acme", 0.8, 0.3)
    assert mix["explained"] == pytest.approx(-0.10)

    within = checked(config, capsys, "--within", "tags.tenant", expect=EXIT_DONE)
    assert (within["within"], within["verdict"]) == ("tags.tenant", "no_worse")
    (line,) = within["lines"]
    assert line["mix"] is None
    assert line["within"] == mix["within"]
    assert line["within"]["result"]["difference"]["value"] == pytest.approx(0.0, abs=1e-12)
    assert line["within"]["compared"] == pytest.approx(1.0)

    low, high = (f"{100 * line['within']['result']['difference'][end]:+.1f}" for end in ("low", "high"))
    assert check(config) == EXIT_FAILED
    shown = capsys.readouterr().out
    assert (
        "the mix of tags.tenant differs: acme 80 % -> 30 %; within its values the difference is "
        f"+0.0 points ({low} to {high}): use `... --within tags.tenant` to decide by that"
    ) in shown
    assert check(config, "--within", "tags.tenant") == EXIT_DONE
    shown = capsys.readouterr().out
    assert "within tags.tenant" in shown
    assert "2 values common to both, 100.0 % of v2's traffic and weighted by it" in shown
    assert "the mix of" not in shown


def test_a_fall_that_an_easier_mix_hides_is_worse_within(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(store, "v1", {"acme": (600, 0.95), "globex": (1400, 0.75)})
    serve(store, "v2", {"acme": (1800, 0.85), "globex": (200, 0.65)})
    (line,) = checked(config, capsys, expect=EXIT_DONE)["lines"]
    assert line["result"]["difference"]["value"] == pytest.approx(0.02)
    assert line["mix"]["field"] == "tags.tenant"
    assert check(config) == EXIT_DONE
    shown = capsys.readouterr().out
    assert "the mix of tags.tenant differs: acme 30 % -> 90 %" in shown
    assert "the difference is -10.0 points" in shown
    assert checked(config, capsys, "--within", "tags.tenant", expect=EXIT_FAILED)["verdict"] == "worse"


def test_where_the_mix_is_the_same_no_line_speaks_of_it(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(store, "v1", {"acme": (1000, 0.95), "globex": (1000, 0.75)})
    serve(store, "v2", {"acme": (1000, 0.85), "globex": (1000, 0.65)})
    assert checked(config, capsys, expect=EXIT_FAILED)["lines"][0]["mix"] is None
    assert check(config) == EXIT_FAILED
    assert "the mix of" not in capsys.readouterr().out


def test_one_tenant_alone(store: Store, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    harder_mix(store)
    found = checked(config, capsys, "--where", "tags.tenant=acme", expect=EXIT_DONE)
    assert (found["new"]["judged"], found["old"]["judged"]) == (600, 1600)
    assert found["lines"][0]["result"]["difference"]["value"] == pytest.approx(0.0, abs=1e-12)
    assert check(config, "--where", "tags.tenant=acme") == EXIT_DONE
    shown = capsys.readouterr().out
    assert "(UTC), tags.tenant acme" in shown
    assert "v2: 600 judged traces" in shown
    assert check(config, "--where", "tags.tenant=nobody") == EXIT_UNDECIDED
    assert "version 'v2' has no scores in this slice" in capsys.readouterr().err


def test_tenants_of_one_release_alone_are_left_out_and_named(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(store, "v1", {"acme": (1600, 0.95), "globex": (400, 0.75)})
    serve(store, "v2", {"acme": (1500, 0.95), "initech": (500, 0.40)})
    assert check(config, "--within", "tags.tenant") == EXIT_UNDECIDED
    shown = capsys.readouterr().out
    assert "not enough yet: needs values that cover 80 % of the traffic" in shown
    assert "1 value common to both, 75.0 % of v2's traffic" in shown
    assert "excluded, too few effective samples on a side: initech 25.0 %, globex 0.0 %" in shown


def test_a_field_that_nobody_says_decides_nothing_and_one_that_is_none_is_refused(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    harder_mix(store)
    assert check(config, "--within", "tags.tennant") == EXIT_UNDECIDED
    assert "no judged trace of 'v2' or 'v1' in this window has a value of tags.tennant" in capsys.readouterr().err
    for field in ("version", "tenant"):
        assert check(config, "--within", field) == EXIT_USAGE
        assert f"{field!r} is not category, model" in capsys.readouterr().err
    assert check(config, "--where", "version=v1") == EXIT_USAGE


def test_sums_by_the_minute_know_the_mix_of_categories_alone(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    harder_mix(store)
    found = checked(config, capsys, "--by-minute", expect=EXIT_FAILED)
    assert found["mix_looked_at"] == ["category"]
    assert check(config, "--by-minute") == EXIT_FAILED
    assert "The traffic mix was checked by category only" in capsys.readouterr().out
    assert checked(config, capsys, "--by-minute", "--within", "tags.tenant", expect=EXIT_DONE)["verdict"] == "no_worse"


def test_a_comparison_by_version_tells_the_mix_and_takes_a_filter(
    store: Store, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    harder_mix(store)
    compared = ["compare", "v1", "v2", "--by", "version", *WINDOW, "--config", config]
    assert run(compared) == EXIT_DONE
    assert "the mix of tags.tenant differs: acme 80 % -> 30 %" in capsys.readouterr().out
    assert run([*compared, "--where", "tags.tenant=acme"]) == EXIT_DONE
    shown = capsys.readouterr().out
    assert "the mix of" not in shown
    assert "--where tags.tenant=acme" in shown.splitlines()[-1]  # the release check that it names is of the same
    assert run([*compared, "--where", "tags.tenant=acme", "--json"]) == EXIT_DONE
    (line,) = json.loads(capsys.readouterr().out)["unpaired"]
    assert (line["a"]["judged"], line["b"]["judged"], line["mix"]) == (1600, 600, None)
    assert run(["compare", "v1", "v2", "--cases", "--where", "tags.tenant=acme", "--config", config]) == EXIT_USAGE
    assert "--where is only for versions on different live traffic" in capsys.readouterr().err


def test_the_help_shows_how_to_compare_within(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["release", "check", "--help"]) == EXIT_DONE
    shown = capsys.readouterr().out
    assert "tracejudge release check v42 --against v41 --within tags.tenant" in shown
    assert "less than 80 %" in " ".join(shown.split())
