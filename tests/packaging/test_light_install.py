"""What a RAG service gets that installs the wheel without extras."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_LOOK = """
import importlib.metadata, json, re, sys
import tracejudge_sdk
from tracejudge_sdk.schema import published
client = tracejudge_sdk.TraceClient(f"sqlite:///{sys.argv[1]}", app="shop")
client.log(query="q", response="r")
closed = client.close(30)
canonical = lambda name: re.sub(r"[-_.]+", "-", name).lower()
print(json.dumps({
    "closed": closed,
    "sent": client.stats().sent,
    "heavy": [name for name in ("kafka", "chdb", "llama_index", "aiohttp") if name in sys.modules],
    "installed": sorted(canonical(d.metadata["Name"]) for d in importlib.metadata.distributions()),
    "version": [importlib.metadata.version("tracejudge"), tracejudge_sdk.__version__],
    "schema": published("record")["title"],
    "file": tracejudge_sdk.__file__,
}))
"""

_CLOSURE = """
import importlib.metadata, json, re
canonical = lambda name: re.sub(r"[-_.]+", "-", name).lower()
found, todo = set(), ["tracejudge", "pydantic", "kafka-python", "crc32c"]
while todo:
    name = canonical(todo.pop())
    if name in found:
        continue
    found.add(name)
    if name != "tracejudge":
        for line in importlib.metadata.requires(name) or []:
            if "extra ==" not in line and "python_version" not in line and "platform" not in line:
                todo.append(re.match(r"[A-Za-z0-9._-]+", line)[0])
print(json.dumps(sorted(found)))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the built wheel and nothing else."""
    folder = tmp_path_factory.mktemp("light")
    source = folder / "source"
    # A copy, so that a build leaves nothing in the tree.
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.db", "node_modules")
    shutil.copytree(ROOT, source, ignore=ignored, ignore_dangling_symlinks=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", str(source), "--no-deps", "-w", str(folder)], check=True, timeout=150)
    (wheel,) = folder.glob("tracejudge-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=60)
    scripts = "Scripts" if sys.platform == "win32" else "bin"
    python = folder / "venv" / scripts / "python"
    subprocess.run(
        [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install", str(wheel)], check=True, timeout=150
    )
    return python


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_base_install_logs_and_brings_four_distributions_and_what_they_need(python: Path, tmp_path: Path) -> None:
    def run(code: str, *arguments: str) -> object:
        command = [str(python), "-I", "-c", code, *arguments]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout)

    seen = run(_LOOK, str(tmp_path / "queue.db"))
    assert isinstance(seen, dict)
    assert str(python.parents[1]) in seen["file"]
    assert (seen["closed"], seen["sent"]) == (True, 1)
    assert seen["heavy"] == []
    assert len(set(seen["version"])) == 1
    assert "tracejudge record" in seen["schema"]
    closure = run(_CLOSURE)
    assert isinstance(closure, list)
    assert {"tracejudge", "pydantic", "kafka-python", "crc32c"} <= set(closure)
    # The tools of the environment itself are not ours.
    assert set(seen["installed"]) - {"pip", "setuptools", "wheel"} == set(closure)
