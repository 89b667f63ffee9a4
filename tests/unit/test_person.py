"""A person's name, where there is one."""

from __future__ import annotations

import getpass

import pytest

from tracejudge_consumer.terminal.person import this_person


def test_a_person_is_named_as_the_system_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "mia")
    assert this_person() == "mia"


@pytest.mark.parametrize("error", [KeyError("uid not found: 10001"), OSError("No username set in the environment")])
def test_a_user_without_a_name_ends_no_command(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", fail)
    assert this_person() == "unknown"
