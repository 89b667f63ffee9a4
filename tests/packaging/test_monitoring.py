"""The alert rules, the dashboard and the runbook: about metrics that exist, and each alert with its entry."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from tests.support.all_metrics import all_metrics
from tracejudge_consumer.watching.metrics import MetricName

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "tracejudge.rules.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "tracejudge.json"
EXAMPLE = ROOT / "deploy" / "prometheus" / "prometheus.example.yaml"
RUNBOOK = ROOT / "deploy" / "runbook.md"
RULES_TEST = ROOT / "tests" / "data" / "prometheus_rules_test.yaml"

SCRAPE_LABELS = {"job", "instance", "le"}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


def exported() -> dict[str, set[str]]:
    """Every name that a query may use, with its labels."""
    registry = all_metrics()
    found: dict[str, set[str]] = {"up": set()}
    for collector in _collectors(registry):
        for family in collector.collect() if not hasattr(collector, "describe") else collector.describe():
            # The library's own metrics know their labels, what others collect stands in the family.
            labels = set(getattr(collector, "_labelnames", ()) or getattr(family, "_labelnames", ()))
            name = family.name + ("_total" if family.type == "counter" else "")
            suffixes = ("_bucket", "_sum", "_count") if family.type == "histogram" else ("",)
            found.update({name + suffix: labels for suffix in suffixes})
    recorded = {rule["record"]: set(_by(rule["expr"])) for rule in rules() if "record" in rule}
    return {**found, **recorded}


def _collectors(registry: CollectorRegistry) -> set[Collector]:
    return set(registry._collector_to_names)


def _by(expression: str) -> list[str]:
    found = re.findall(r"\bby \(([^)]*)\)", expression)
    return [label.strip() for labels in found for label in labels.split(",")]


def _names(expression: str) -> set[str]:
    return set(re.findall(r"\btracejudge[\w:]*", re.sub(r'"[^"]*"', '""', expression)))


def test_every_metric_that_a_rule_or_a_panel_asks_for_is_exported() -> None:
    known = exported()
    for expression in expressions():
        names = _names(expression)
        assert names <= known.keys(), expression
        assert names or "up{" in expression, expression


def test_every_label_that_a_query_uses_is_one_of_its_metric() -> None:
    known = exported()
    for expression in expressions():
        allowed = SCRAPE_LABELS.union(*(known[name] for name in _names(expression)))
        used = set(_by(expression)) | set(re.findall(r"[{,]\s*(\w+)\s*=~?", expression))
        assert used <= allowed, f"{expression}: {used - allowed}"


def test_every_metric_is_looked_at_by_a_rule_or_a_panel() -> None:
    asked = set().union(*(_names(expression) for expression in expressions()))
    asked |= _names(json.dumps(json.loads(DASHBOARD.read_text())["templating"]).replace('"', " "))
    asked = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
    assert set(get_args(MetricName)) - asked == set()


def test_every_alert_has_its_entry_in_the_runbook_and_the_runbook_no_other() -> None:
    entries = re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.M)
    names = [alert["alert"] for alert in alerts()]
    assert len(set(names)) == len(names)
    assert sorted(entries) == sorted(names)
    for alert in alerts():
        assert alert["annotations"]["runbook"] == f"deploy/runbook.md#{alert['alert'].lower()}"
        assert alert["labels"]["severity"] in ("page", "ticket")
        assert alert["annotations"]["summary"]


def test_every_entry_says_what_it_means_where_to_look_and_what_to_do() -> None:
    for entry in re.split(r"^## ", RUNBOOK.read_text(), flags=re.M)[1:]:
        for part in ("**Means**", "**Look**", "**Do**"):
            assert part in entry, entry.splitlines()[0]


def test_the_runbook_says_what_makes_live_and_ready_false() -> None:
    text = RUNBOOK.read_text()
    for line in ("| `/live` |", "| `/ready` |"):
        assert line in text


def test_commands_that_the_runbook_names_exist() -> None:
    from tracejudge_consumer.cli import _COMMANDS

    named = set(re.findall(r"`tracejudge ([a-z-]+)", RUNBOOK.read_text()))
    assert named <= set(_COMMANDS), named - set(_COMMANDS)


def test_panels_have_titles_units_and_places_of_their_own() -> None:
    board = json.loads(DASHBOARD.read_text())
    assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource", "job"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["targets"]
    for one, other in itertools.combinations(board["panels"], 2):
        a, b = one["gridPos"], other["gridPos"]
        apart = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert apart or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"], (one["title"], other["title"])
        assert a["x"] + a["w"] <= 24


def _promtool() -> str | None:
    return os.environ.get("TRACEJUDGE_PROMTOOL") or shutil.which("promtool")


def test_the_example_scrapes_what_compose_runs_under_the_job_that_alerts_and_panels_ask_for() -> None:
    example = yaml.safe_load(EXAMPLE.read_text())
    assert (EXAMPLE.parent / example["rule_files"][0]).samefile(RULES)
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    for job in example["scrape_configs"]:
        replaced = [one["replacement"] for one in job.get("relabel_configs", ()) if one["target_label"] == "job"]
        assert (replaced or [job["job_name"]]) == ["tracejudge"]
        for target in job["static_configs"][0]["targets"]:
            name, port = target.split(":")
            asked = str(services[name].get("healthcheck", {}).get("test"))
            assert f":{port}/live" in asked, target


@pytest.mark.parametrize(
    "what",
    [
        ["check", "rules", str(RULES)],
        ["test", "rules", str(RULES_TEST)],
        ["check", "config", "--syntax-only", str(EXAMPLE)],
    ],
)
def test_prometheus_own_tool_takes_the_rules_and_they_fire_on_what_they_are_for(what: list[str]) -> None:
    tool = _promtool()
    if tool is None:
        pytest.skip("promtool is not installed here (Debian and Ubuntu: apt install prometheus)")
    done = subprocess.run([tool, *what], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_own_tool_finds_no_fault_in_what_we_export() -> None:
    tool = _promtool()
    if tool is None:
        pytest.skip("promtool is not installed here (Debian and Ubuntu: apt install prometheus)")
    from prometheus_client import generate_latest

    done = subprocess.run(
        [tool, "check", "metrics"], input=generate_latest(all_metrics()), capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
