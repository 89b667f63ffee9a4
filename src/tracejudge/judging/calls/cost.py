"""What one call to a judge's model costs: tokens and money."""

from __future__ import annotations

from typing import Final

from tracejudge.judging.specs.spec import JudgeSpec

CHARS_PER_TOKEN: Final = 3.6
"""Of English prose under the usual tokenisers (about 4); taken a little low, so that estimates err on the dear side."""

TYPICAL_REPLY_TOKENS: Final = 80


def tokens_of(chars: int) -> int:
    """Tokens of `chars` characters of text, estimated, rounded up."""
    return -int(-chars // CHARS_PER_TOKEN)


def call_cost_usd(spec: JudgeSpec, *, input_tokens: int, output_tokens: int) -> float | None:
    """Money of one call, None where the spec holds no prices."""
    if spec.usd_per_million_input_tokens is None or spec.usd_per_million_output_tokens is None:
        return None
    return (
        input_tokens * spec.usd_per_million_input_tokens + output_tokens * spec.usd_per_million_output_tokens
    ) / 1_000_000
