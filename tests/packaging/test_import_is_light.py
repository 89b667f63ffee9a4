"""What `import tracejudge_sdk` loads, and what only the first trace loads."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from tracejudge_sdk import __version__

HEAVY = (
    "kafka", "crc32c", "lz4", "orjson", "sqlite3", "asyncio", "http", "ssl", "multiprocessing", "concurrent.futures",
    "numpy", "aiohttp", "click", "rich", "prometheus_client", "llama_index", "clickhouse_connect", "chdb", "tracejudge",
    "tracejudge_consumer",
)  # fmt: skip


def _loaded(code: str) -> set[str]:
    shown = "import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{shown}"], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_sdk_loads_nothing_heavy_beside_pydantic() -> None:
    extra = _loaded("import tracejudge_sdk") - _loaded("import pydantic, pydantic.main, pydantic_core, logging")
    assert [name for name in HEAVY if name in extra] == []


def test_making_a_client_and_logging_nothing_loads_nothing_more() -> None:
    client = "import tracejudge_sdk; client = tracejudge_sdk.TraceClient('{}', app='shop'); client.close()"
    for url in ("sqlite:///unused.db", "kafka://localhost:9092/traces", "https://gateway.invalid"):
        assert not {"kafka", "sqlite3", "ssl", "http.client"} & _loaded(client.format(url))


def test_the_integrations_load_their_library_only_when_used() -> None:
    assert not {"llama_index", "opentelemetry", "langchain_core"} & _loaded("import tracejudge_sdk.integrations")


@pytest.mark.parametrize(
    ("name", "library", "remedy"),
    [
        ("llama_index", "llama_index_instrumentation", "pip install 'llama-index-core>=0.14'"),
        ("opentelemetry", "opentelemetry.sdk", "pip install 'opentelemetry-sdk>=1.25'"),
        ("langchain", "langchain_core", "pip install 'langchain-core>=1'"),
    ],
)
def test_an_integration_without_its_library_names_the_remedy(name: str, library: str, remedy: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; import tracejudge_sdk.integrations.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert remedy in done.stderr


def test_the_version_said_on_the_wire_is_that_of_the_distribution() -> None:
    assert importlib.metadata.version("tracejudge") == __version__
