"""The files in deploy/ are what they say: accepted by their own tools where those are here, and safe by default."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"


def _compose() -> list[str] | None:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and not subprocess.run([*command, "version"], capture_output=True).returncode:
            return command
    return None


def test_docker_compose_accepts_the_compose_file() -> None:
    command = _compose()
    if command is None:
        pytest.skip("docker compose is not installed here")
    done = subprocess.run(
        [*command, "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"],
        capture_output=True,
        text=True,
        env={**os.environ, "TRACEJUDGE_STORE_PASSWORD": "made-up", "TRACEJUDGE_INGEST_KEY": "made-up-as-well"},
    )
    assert done.returncode == 0, done.stderr


def test_every_published_port_is_on_loopback_and_no_password_is_fixed() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert {"kafka", "clickhouse", "migrate", "consumer", "watch", "gateway"} <= services.keys()
    for service in services.values():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")
        for name, value in service.get("environment", {}).items():
            if "PASSWORD" in name:
                assert str(value).startswith("${TRACEJUDGE_STORE_PASSWORD:?")
            if name.endswith("_KEY"):
                assert str(value).startswith(("${TRACEJUDGE_INGEST_KEY:?", "${OPENAI_API_KEY:-}"))


def test_the_image_runs_as_a_user_without_rights() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["tracejudge"]
    assert lines.index("USER tracejudge") < next(i for i, line in enumerate(lines) if line.startswith("ENTRYPOINT"))


def test_the_unit_runs_the_installed_command_without_rights() -> None:
    unit = (DEPLOY / "tracejudge-consumer.service").read_text()
    assert "ExecStart=/opt/tracejudge/bin/tracejudge consume" in unit
    for line in ("User=tracejudge", "NoNewPrivileges=yes", "ProtectSystem=strict", "RestartPreventExitStatus=64"):
        assert line in unit
