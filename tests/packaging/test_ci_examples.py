"""The example workflows: they parse, call commands with options that there are, and always come to an end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tracejudge_consumer.cli import cli

FOLDER = Path(__file__).parents[2] / "deploy" / "ci"
FILES = sorted(FOLDER.glob("*.yml"))


def commands(text: str) -> list[list[str]]:
    """Every call of ours: the words from `tracejudge` to the end of its command, lines joined as the shell would."""
    joined = re.sub(r"\\\n\s*", " ", text)
    joined = re.sub(r"\n\s+(?=--|\S+ --judge)", " ", joined)
    return [found.split() for found in re.findall(r"tracejudge (?:score|gate) [^\n|]*", joined)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_option_of_an_example_is_one_of_the_command(path: Path) -> None:
    calls = commands(path.read_text(encoding="utf-8"))
    assert {call[1] for call in calls} == {"score", "gate"}
    context = click.Context(cli)
    for call in calls:
        command = cli.get_command(context, call[1])
        assert command is not None
        known = {option for parameter in command.params for option in parameter.opts}
        asked = {word for word in call if word.startswith("--")}
        assert asked <= known
        assert asked


def test_the_required_check_of_github_always_ends_and_fails_when_the_gate_does() -> None:
    value: dict[Any, Any] = yaml.safe_load((FOLDER / "github-actions.yml").read_text(encoding="utf-8"))
    started_by = value[True]  # YAML 1.1 reads `on` as true
    assert started_by["pull_request"] is None  # a path filter here would leave a required check waiting for ever
    jobs = value["jobs"]
    assert jobs["quality"]["if"] == "always()"
    assert jobs["quality"]["needs"] == ["changes", "judge"]
    assert "pipeline" in jobs["judge"]["if"]


def test_no_text_of_a_pull_request_reaches_a_shell() -> None:
    """Titles and branch names are anybody's: they are handed over as variables, never pasted into a script."""
    value = yaml.safe_load((FOLDER / "github-actions.yml").read_text(encoding="utf-8"))
    scripts = [step["run"] for job in value["jobs"].values() for step in job["steps"] if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script]


def test_what_runs_the_code_of_a_pull_request_may_write_nothing() -> None:
    value = yaml.safe_load((FOLDER / "github-actions.yml").read_text(encoding="utf-8"))
    assert value["permissions"] == {"contents": "read"}
    for name, job in value["jobs"].items():
        checked_out = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        # The token would lie in .git/config, for whatever the pull request's code does with it.
        assert all(step["with"]["persist-credentials"] is False for step in checked_out)
        assert (name == "comment") == ("permissions" in job)
        assert name != "comment" or not checked_out
