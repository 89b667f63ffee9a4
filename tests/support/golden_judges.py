"""Golden transcripts: what each kind of judge asks and makes of fixed replies, and the JudgeId that stands for it.

    python -m tests.support.golden_judges --write

writes them anew. Do so after raising the `code` of the kind whose behaviour changed (or PARSER, PACKING), or for a kind
that is new; a transcript that changes without that would change what a JudgeId stands for.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final

from tests.support.kinds import kind_spec
from tests.support.panels import make_panel, make_task
from tracejudge.judging.replies.verdict import PARSER
from tracejudge.judging.specs.identity import PACKING
from tracejudge.judging.specs.kinds import BUILT_IN
from tracejudge.scores import LedgerRow, Score
from tracejudge.testing import make_trace
from tracejudge.testing.judges import ScriptedJudge

FILE: Final = Path(__file__).parents[1] / "data" / "golden" / "judges.json"

_LONG: Final = " ".join(f"Sentence {n} says something of its own." for n in range(400))
_TRACES: Final[dict[str, dict[str, Any]]] = {
    "plain": {"reference": "Ten users.", "expected_ids": ["n-0"], "latency_ms": 1500},
    "conversation": {
        "reference": "Ten.",
        "expected_ids": ["n-9"],
        "latency_ms": 9000,
        "response": "I'm sorry, I don't know.",
        "history": [{"role": "user", "content": "Plan zero?"}, {"role": "assistant", "content": "Yes?"}],
    },
    "long": {
        "reference": "Ten.",
        "response": '{"limit": 10}',
        "source_nodes": [{"node_id": f"p{n}", "text": f"{n}. {_LONG}"} for n in range(3)],
        "expected_ids": ["p2"],
        "latency_ms": 2000,
    },
}
_REPLIES: Final = (
    '{"unsupported": [], "broken": [], "reason": "r", "verdict": "YES", "score": 4, "better": "A"}',
    '{"unsupported": ["It is blue."], "verdict": "NO"}',
    "**Verdict:** Nein - das steht dort nicht.",
    "Score: 2/5\nmostly wrong",
    "B. It is shorter.",
    "<think>yes or no</think>\nYES",
    "I cannot help with that.",
    "YES and NO",
)


def transcripts() -> dict[str, Any]:
    """What the judges of this tree do, in the form of the file."""
    return {"parser": PARSER, "packing": PACKING, "kinds": {kind: _kind(kind) for kind in BUILT_IN}}


def _kind(name: str) -> dict[str, Any]:
    kind = BUILT_IN[name]
    small = {"context_window_tokens": 4_096, "max_tokens": 512} if kind.asks_model else {}
    spec = kind_spec(name, **small)
    said = []
    for trace_name, fields in _TRACES.items():
        for reply in _REPLIES if kind.asks_model else ("",):
            judge = ScriptedJudge(reply)
            panel = make_panel(spec, judge)
            result = asyncio.run(panel.evaluate([make_task(make_trace(0, **fields), spec.name)]))
            rows: list[Score | LedgerRow] = [*result.scores, *result.ledger]
            (row,) = rows
            score = row.score if isinstance(row, Score) else None
            asked = "\n".join(message.content for request in judge.requests for message in request)
            asked = re.sub(r"(?<= )[0-9a-f]{12}(?=>>>| was made)", "CODE", asked)
            said.append(
                {
                    "trace": trace_name,
                    "reply": reply,
                    "asked": f"{judge.calls} calls, {hashlib.sha256(asked.encode()).hexdigest()[:12]}",
                    "outcome": (row.outcome if isinstance(row, Score) else row.decision).value,
                    "reason": row.reason,
                    "score": None if score is None else round(score, 9),
                    "feedback": row.feedback if isinstance(row, Score) else "",
                    "flags": list(row.flags) if isinstance(row, Score) else [],
                }
            )
    return {"code": kind.code, "judge_id": spec.judge_id(), "default_id": kind_spec(name).judge_id(), "said": said}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true", help="replace the file")
    if parser.parse_args().write:
        FILE.write_text(json.dumps(transcripts(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"wrote {FILE}")


if __name__ == "__main__":
    main()
