"""Another mix of traffic behind a difference of two releases, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracejudge.reports import ReleaseLine
from tracejudge.scores import JudgeId
from tracejudge_consumer.terminal.rendering import ident, one_line, percent


def mixes_in_words(lines: Iterable[ReleaseLine], names: Mapping[JudgeId, str]) -> list[str]:
    """A sentence for each judge's line whose difference the mix explains; it names its judge where there are several.

    `names` are the judges' by JudgeId.
    """
    lines = list(lines)
    said = []
    for line in lines:
        if (mix := line.mix) is None or (seen := mix.within.result.difference) is None:
            continue
        field = ident(mix.field)
        by = f" by {ident(names[line.judge_id])}" if len(lines) > 1 else ""
        of = "" if mix.within.compared >= 0.995 else f" (of {percent(mix.within.compared, digits=0)} of the traffic)"
        said.append(
            f"the mix of {field} differs: {one_line(mix.value, limit=40) or '(none)'} "
            f"{percent(mix.share_old, digits=0)} -> {percent(mix.share_new, digits=0)}; within its values the "
            f"difference{by}{of} is {100 * seen.value:+.1f} points ({100 * seen.low:+.1f} to {100 * seen.high:+.1f}): "
            f"use `... --within {field}` to decide by that"
        )
    return said
