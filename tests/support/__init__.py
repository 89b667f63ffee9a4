"""Servers and helpers the tests share: a real Kafka broker, a scripted judge."""
