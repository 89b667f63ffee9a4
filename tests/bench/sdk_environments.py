"""Environments in which the clients of the bench `sdk` run: the peers must not share ours, nor our extras our base."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import tomli

ROOT: Final = Path(__file__).parents[2]
_FOLDER: Final = ROOT / ".cache" / "bench"
_PEERS: Final = (
    "langfuse>=4,<5",
    "opentelemetry-sdk>=1.30,<2",
    "opentelemetry-exporter-otlp-proto-http>=1.30,<2",
    "orjson>=3.10",
)


def python_of(name: str) -> str:
    """The interpreter of the environment `peers`, `fast` or `base`, installed when it is not there."""
    wanted = _requirements(name)
    stamp = hashlib.sha256("\n".join((sys.version, *wanted)).encode()).hexdigest()[:12]
    folder = _FOLDER / f"sdk-{name}-{stamp}"
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        print(f"... installing the environment {name} ({', '.join(wanted)})", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, *wanted], check=True)
        (folder / "installed").touch()
    return str(python)


def variables() -> dict[str, str]:
    """The process environment of a child: our code from the source tree, and nothing that changes a peer."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "LANGFUSE_", "PYTHON"))}
    return {**kept, "PYTHONPATH": os.pathsep.join((str(ROOT / "producer_sdk"), str(ROOT)))}


def _requirements(name: str) -> tuple[str, ...]:
    if name == "peers":
        return _PEERS
    project = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["fast"] if name == "fast" else ()
    return (*project["dependencies"], *extra)
