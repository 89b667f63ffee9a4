"""The second chance of `.ci/run`: for a few tests that failed, and for nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "run"
TESTS = """
from pathlib import Path

def test_that_is_well(): pass

def test_that_failed_once():
    seen = Path("seen")
    before = seen.exists()
    seen.touch()
    assert before

def test_that_fails():
    assert Path("mended").exists()
"""
BROKEN_OFF = """
def pytest_runtest_logreport(report):
    if "is_well" in report.nodeid and report.when == "teardown":
        raise RuntimeError("the suite breaks off here")
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project of three tests, in which everything is installed that the script asks for."""
    here = tmp_path / "clone"
    (here / ".ci").mkdir(parents=True)
    shutil.copy(SCRIPT, here / ".ci" / "run")
    (here / "bin").mkdir()
    (here / ".venv" / "bin").mkdir(parents=True)
    for command in ("java", "mvn", "chromium", "promtool", "python3"):
        _program(here / "bin" / command, "exit 0")
    _program(here / "bin" / "apt-get", "exit 70")
    _program(here / ".venv" / "bin" / "pytest", f'exec {sys.executable} -m pytest --rootdir=. "$@"')
    (here / "Makefile").write_text("test: check\n\t.venv/bin/pytest --quiet\ncheck:\n\t@test ! -e badly_formatted\n")
    (here / "test_few.py").write_text(TESTS)
    (here / "seen").touch()
    (here / "mended").touch()
    return here


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def run(clone: Path) -> subprocess.CompletedProcess[str]:
    path = f"{clone / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "MAKE", "COV"))}
    env |= {"PATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(["bash", ".ci/run"], cwd=clone, env=env, capture_output=True, text=True, timeout=150)


def test_a_test_that_passes_alone_is_named_and_lets_the_run_pass(clone: Path) -> None:
    (clone / "seen").unlink()
    done = run(clone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_few.py::test_that_failed_once PASSED" in done.stdout
    assert "FLAKY" in done.stdout


def test_what_fails_again_fails_the_run(clone: Path) -> None:
    (clone / "seen").unlink()
    (clone / "mended").unlink()
    done = run(clone)
    assert done.returncode != 0
    assert "failed: 2 of at most 3" in done.stdout
    assert "FLAKY" not in done.stdout


def test_failures_left_by_an_earlier_run_excuse_no_failure_of_a_check(clone: Path) -> None:
    (clone / "mended").unlink()
    assert run(clone).returncode != 0
    (clone / "mended").touch()
    (clone / "badly_formatted").touch()
    done = run(clone)
    assert done.returncode != 0
    assert "asking once more" not in done.stdout


def test_a_suite_that_broke_off_has_no_second_chance(clone: Path) -> None:
    # One test had failed, others were never run: that this one passes alone says nothing about those.
    (clone / "seen").unlink()
    (clone / "test_few.py").write_text(
        TESTS.replace("def test_that_is_well(): pass", "") + "def test_is_well(): pass\n"
    )
    (clone / "conftest.py").write_text(BROKEN_OFF)
    done = run(clone)
    assert done.returncode != 0
    assert "INTERNALERROR" in done.stdout + done.stderr
    assert "asking once more" not in done.stdout
