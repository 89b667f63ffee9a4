"""LlamaIndex's OpenAILike in an environment of its own: CPU of one `acomplete` against an endpoint on loopback."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parents[2] / ".cache" / "bench"

_CHILD: Final = """
import asyncio, sys, time
from llama_index.llms.openai_like import OpenAILike

base_url, prompt_chars, calls, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])

async def main():
    llm = OpenAILike(model="judge", api_base=base_url, api_key="k", is_chat_model=True, max_retries=0, timeout=60)
    rows = iter(range(calls))
    async def work():
        for row in rows:
            await llm.acomplete(f"row-{row} " + "x" * prompt_chars)
    for row in range(5):
        await llm.acomplete("warm up")
    start = time.process_time()
    await asyncio.gather(*(work() for _ in range(workers)))
    return (time.process_time() - start) / calls

print(asyncio.run(main()))
"""


def python_of_peers() -> str:
    """The interpreter that has OpenAILike and our release of llama-index-core; installed when it is not there."""
    wanted = ("llama-index-llms-openai-like", f"llama-index-core=={version('llama-index-core')}")
    stamp = hashlib.sha256("\n".join((sys.version, *wanted)).encode()).hexdigest()[:12]
    folder = _FOLDER / f"judging-peers-{stamp}"
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        print(f"... installing an environment for {wanted[0]}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, *wanted], check=True)
        (folder / "installed").touch()
    return str(python)


def open_ai_like_cpu_s(base_url: str, *, prompt_chars: int, calls: int, workers: int) -> float:
    """Seconds of CPU for one `OpenAILike.acomplete`, nothing of ours around it."""
    command = [python_of_peers(), "-W", "ignore", "-c", _CHILD, base_url, *map(str, (prompt_chars, calls, workers))]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
