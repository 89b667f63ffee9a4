"""A short chaos run on a real broker; the long one is `make chaos`."""

from __future__ import annotations

import os

import pytest

from tests.support.chaos.run import Plan, run
from tests.support.chaos.table import table, too_few
from tests.support.kafka_broker import KafkaBroker

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")
pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400)]

SEED = 20_260_101
PLANTED = "TRACEJUDGE_CHAOS_PLANTED"


@pytest.fixture
def own_broker(kafka_broker: KafkaBroker) -> KafkaBroker:
    if not kafka_broker.owned:
        pytest.skip("TRACEJUDGE_TEST_KAFKA names a broker that is not ours to kill; unset it and one is started")
    return kafka_broker


def test_nothing_is_lost_and_nothing_counted_twice_whatever_breaks(own_broker: KafkaBroker) -> None:
    outcome = run(Plan(seed=SEED, traces=700, each=1), own_broker, say=print)
    print(table(outcome, least=1))
    assert outcome.findings.faults == ()
    assert too_few(outcome, least=1) == []


@pytest.mark.skipif(PLANTED not in os.environ, reason="a minute that proves the run itself: `make chaos` runs it")
def test_the_run_notices_offsets_committed_before_the_store_has_the_work(own_broker: KafkaBroker) -> None:
    """A run that passed with this fault of ours would prove nothing."""
    # One kill may come when all that was handed out is stored already; four in a row do not.
    plan = Plan(seed=SEED, traces=400, each=4, faults=("consumer killed",), planted=True)
    outcome = run(plan, own_broker, say=print)
    assert any("instead of" in fault for fault in outcome.findings.faults), table(outcome, least=1)
    assert any("unaccounted" in fault or "not stored" in fault for fault in outcome.findings.faults)
