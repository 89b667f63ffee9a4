"""What one gateway takes at most, in bytes, lines, connections and seconds."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Bounds of one gateway. The limit of one record is the queue's own."""

    max_body_bytes: int = 16_000_000  # of one request as it comes, packed or not
    max_unpacked_bytes: int = 64_000_000  # of one request once unpacked
    max_lines: int = 10_000  # of one request
    max_connections: int = 256
    max_in_flight_bytes: int = 128_000_000  # of all requests together, from their first byte to the queue's answer
    read_timeout_s: float = 30.0  # for a request's headers, and for its body
    answer_timeout_s: float = 30.0  # for the queue to confirm
    drain_timeout_s: float = 10.0  # at the end: for requests under way

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value <= 0:
                raise ValueError(f"{one.name}: {value!r} is not above 0")
