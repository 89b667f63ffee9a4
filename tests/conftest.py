"""Fixtures every test may ask for."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.kafka_fixture", "tests.support.store_fixture"]

# How long an example takes says more about the machine than about the code: times are never asserted in a test.
settings.register_profile("tracejudge", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tracejudge")
