"""Which sentence comes first: a shift of the mix that explains most of the fall, before a release that came with it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from tests.unit.test_evidence_appeared import RELEASE, found, rows
from tracejudge.evidence import Evidence
from tracejudge.evidence.appeared import Appeared
from tracejudge.evidence.standing_out import Finding, mix_first
from tracejudge.evidence.words import slices_say

NOTE = "(slices of several attributes hold the same traces, so their shares of the fall do not add up)"


def finding(attribute: str, value: str, share: float, **fields: object) -> Finding:
    one = Finding(
        attribute=attribute, value=value, kind="within", contribution=-0.1, low=-0.2, high=-0.05, share_of_change=share,
        before=None, since=None, share_before=0.2, share_since=0.4, strength=2.0,
    )  # fmt: skip
    return replace(one, **fields)  # type: ignore[arg-type]


def said(appeared: tuple[Appeared, ...], *findings: Finding) -> str:
    told = SimpleNamespace(
        enough=True, appeared=appeared, findings=tuple(mix_first(findings)), sliced_by=(1,), looked_at=9
    )
    return slices_say(cast("Evidence", told))


MIX = finding("category", "billing", 0.84, kind="mix", strength=1.0)
TENANT = finding("tags.tenant", "acme", 0.64)


def test_a_mix_that_explains_most_comes_before_what_appeared_and_before_stronger_findings() -> None:
    text = said(found(RELEASE, started=600), TENANT, MIX)
    assert text.startswith("the mix of traffic moved: category billing went from 20.0 % to 40.0 %")
    assert text.index("version v42 appeared") > text.index("also tags.tenant acme")
    small = replace(MIX, share_of_change=0.4)
    assert said(found(RELEASE, started=600), TENANT, small).startswith("version v42 appeared")


def test_a_release_that_was_healthy_for_a_while_comes_last() -> None:
    healthy = [*rows(0, 600, failing=10, version="v41"), *rows(600, 700, failing=10, version="v42")]
    text = said(found([*healthy, *rows(700, 820, failing=2, version="v42")], started=700), TENANT)
    assert text.startswith("tags.tenant acme fell from")


def test_that_shares_of_overlapping_slices_do_not_add_up_is_said_once() -> None:
    assert said((), TENANT, finding("category", "billing", 0.84)).count(NOTE) == 1
    assert NOTE not in said((), TENANT, finding("tags.tenant", "bolt", 0.3)), "values of one attribute do add up"
