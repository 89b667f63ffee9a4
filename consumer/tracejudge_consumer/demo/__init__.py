"""The whole flow on shipped traces: what `tracejudge demo` runs."""

from tracejudge_consumer.demo.stream import DemoStream, demo_stream

__all__ = ["DemoStream", "demo_stream"]
