"""Fixtures every test may ask for."""

pytest_plugins = ["tests.support.kafka_fixture", "tests.support.store_fixture"]
