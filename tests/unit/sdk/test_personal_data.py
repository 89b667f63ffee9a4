"""The ready redaction hook: what it takes, and what it leaves."""

from __future__ import annotations

import pytest

from tracejudge_sdk.personal_data import CARD, EMAIL, KEY, PHONE, mask_personal_data

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("write to jane.doe+x@example.co.uk now", f"write to {EMAIL} now"),
        ("<jürgen@straße.example>", f"<{EMAIL}>"),
        ("https://h.example/?u=jane%40example.com&x=1", f"https://h.example/?u={EMAIL}&x=1"),
        (f"{'a' * 300}@example.com", EMAIL),
        ("a@b.example,c@d.example", f"{EMAIL},{EMAIL}"),
        ("4111 1111 1111 1111", CARD),
        ("4111111111111111.", f"{CARD}."),
        ("card: 5500-0000-0000-0004, thanks", f"card: {CARD}, thanks"),
        ("3782 822463 10005", CARD),
        ("12 4111 1111 1111 1111 99", f"12 {CARD} 99"),
        ("4111\u00a01111\u00a01111\u00a01111", CARD),
        ("call +49 171 1234567", f"call {PHONE}"),
        ("0049 (0)171 1234567", PHONE),
        ("(555) 123-4567", PHONE),
        ("555-123-4567 or 555.123.4567", f"{PHONE} or {PHONE}"),
        ("020 7946 0958, 06.12.34.56.78, 0171/1234567", f"{PHONE}, {PHONE}, {PHONE}"),
        ("sk-proj-abcdefghijklmnop123456", KEY),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", KEY),
        ("AKIAIOSFODNN7EXAMPLE", KEY),
        ("xoxb-123456789012-abcdef", KEY),
        ("Authorization: Bearer abc.def-ghi", f"Authorization: Bearer {KEY}"),
        ("password=hunter2", f"password={KEY}"),
        ("""{"api_key": "k 1", "x": 1}""", f"""{{"api_key": {KEY}, "x": 1}}"""),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", f"AWS_SECRET_ACCESS_KEY={KEY}"),
        ("x wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY y", f"x {KEY} y"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sflKxwRJSMeKKF2QT4", KEY),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiO", KEY),
        ("postgres://bob:s3cret@db.example:5432/x", f"postgres://{KEY}@db.example:5432/x"),
        (f"before {PEM} after", f"before {KEY} after"),
        (f"before {PEM[:45]}", f"before {KEY}"),
    ],
)
def test_it_masks(text: str, masked: str) -> None:
    assert mask_personal_data(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Paris is the capital of France.",
        "on 2026-01-15 at 10:30, 01.02.2026 10:30",
        "192.168.0.1 and v1.2.3, pi is 3.14159265358979",
        "1700000000000 ms, order 12345678901, 1 234 567 890 items",
        "550e8400-e29b-41d4-a716-446655440000",
        "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
        "4111 1111 1111 1112 fails the check",
        "@handle, a @ b, user@localhost",
        "Smith (2019) 1234-1240",
        "https://docs.example.com/guides/install?page=2#top",
    ],
)
def test_it_leaves(text: str) -> None:
    assert mask_personal_data(text) == text


def test_in_ids_digits_are_digits() -> None:
    assert mask_personal_data("4111111111111111", "source_nodes.node_id") == "4111111111111111"
    assert mask_personal_data("jane@example.com", "user_id") == EMAIL
