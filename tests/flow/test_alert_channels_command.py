"""`tracejudge alerts channels`: a person sees where channels stand, and tries them before they are needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.webhook import Receiver
from tests.support.workplace import Workplace


@pytest.fixture
def at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store_url: str
) -> Workplace:
    monkeypatch.chdir(tmp_path)
    settings = f'queue = "sqlite:///queue.db"\nstore = "{store_url}"\n'
    return Workplace(tmp_path, capsys, settings)


def _channels(pager: Receiver, hook: Receiver) -> str:
    return f"""
[[notifiers]]
type = "pagerduty"
secret_env = "PAGER_KEY"
url = "{pager.url}"
allow_private = true
[[notifiers]]
type = "webhook"
name = "on-call"
url = "{hook.url}/S3CRET"
allow_private = true
max_messages = "7 per 1h"
match = {{ app = "shop" }}
"""


def test_channels_are_tried_and_one_that_does_not_take_it_fails_the_command(
    at: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver() as pager, Receiver() as hook:
        hook.status = 503
        monkeypatch.setenv("PAGER_KEY", "r0ut1ng")
        (at.folder / "tracejudge.toml").write_text(at.settings + _channels(pager, hook), encoding="utf-8")
        tried = at.json("alerts", "channels", "test", expect=1)
        assert "trigger" in pager.requests[0][2].decode()
        assert "resolve" in pager.requests[1][2].decode(), "no incident stays open"
        assert at.json("alerts", "channels", "test", "pagerduty")["channels"] == [
            {"channel": "pagerduty", "ok": True, "error": ""}
        ]
    by_name = {one["channel"]: one for one in tried["channels"]}
    assert by_name["pagerduty"]["ok"]
    assert "answered 503" in by_name["on-call"]["error"]
    assert "S3CRET" not in str(tried)
    assert "'nobody' is not one of" in at("alerts", "channels", "test", "nobody", expect=64)
    at("migrate")
    found = {one["channel"]: one for one in at.json("alerts", "channels")["channels"]}
    assert found["on-call"]["limit"] == "7 per 1h"
    assert (found["on-call"]["match"], found["on-call"]["state"]) == ({"app": "shop"}, "ok")
    assert "7 per 1h" in at("alerts", "channels")
