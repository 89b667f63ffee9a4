"""A trace as a person reads it: facts, texts, signals, verdicts with their reasons, what people said."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from tracejudge.counted import counted
from tracejudge.judging.tasks import content_hash
from tracejudge.scores import LIVE_RUN, Label, LedgerRow, Score
from tracejudge.store import StoredFeedback, StoredTrace
from tracejudge_consumer.terminal.rendering import harmless, ident, instant, money, one_line


def show_trace(out: Console, stored: StoredTrace, *, full: bool) -> None:
    """Facts and texts; their beginnings unless `full`."""
    trace = stored.trace
    limit = None if full else 600
    out.print(Text(f"{ident(trace.trace_id)}  {ident(trace.app)} / {ident(trace.environment)}", style="bold"))
    facts = [
        ("served", f"{instant(trace.event_time)} UTC"),
        ("status", trace.status + (f": {one_line(trace.error)}" if trace.error else "")),
        ("version", trace.version),
        ("category", trace.category),
        ("user", trace.user_id),
        ("session", trace.session_id),
        ("model", trace.model),
        ("latency", None if trace.latency_ms is None else f"{trace.latency_ms:.0f} ms"),
        ("head probability", None if trace.head_probability == 1 else f"{trace.head_probability:g}"),
        ("from", f"{stored.source} partition {stored.partition} offset {stored.offset}"),
        ("tags", ", ".join(f"{key}={value}" for key, value in trace.tags.items())),
        ("marks", " ".join(name for name in ("truncated", "lossy") if getattr(trace, name))),
    ]
    for name, value in facts:
        if value:
            out.print(f"  {name:<17}{one_line(value, limit=120)}")
    for turn in trace.history:
        out.print(f"  earlier, {one_line(turn.role, limit=12)}: {one_line(turn.content, limit=120)}")
    gone = stored.texts_expired
    _text(out, "question", trace.query, limit, gone=gone)
    _text(out, "answer", trace.response, limit, gone=gone)
    if trace.reference:
        _text(out, "reference", trace.reference, limit)
    for number, node in enumerate(trace.source_nodes, start=1):
        score = "" if node.score is None else f"  score {node.score:.3f}"
        _text(out, f"passage {number}  {one_line(node.node_id, limit=40)}{score}", node.text, limit, gone=gone)
    if stored.signals:
        out.print(Text("signals", style="bold"))
        shown = {name: value for name, value in stored.signals.items() if value not in (None, "")}
        out.print("  " + ", ".join(f"{name} {_short(value)}" for name, value in shown.items()))


def _text(out: Console, title: str, text: str | None, limit: int | None, *, gone: bool = False) -> None:
    out.print(Text(title, style="bold"))
    shown = "(none)" if text is None else harmless(text, limit=limit) or "(empty)"
    if gone and not text:
        shown = "(past its retention)"
    for line in shown.splitlines():
        out.print("  " + line)


def show_verdicts(
    out: Console, scores: list[Score], rows: list[LedgerRow], *, full: bool, stored: Sequence[StoredTrace] = ()
) -> None:
    """Every verdict with its raw reply, then who did not judge and why. A live one about another content than is
    `stored` says so: of an id that came twice the first record is kept, and what nobody had judged yet is judged by the
    later one."""
    kept = {one.key: content_hash(one.trace) for one in stored if not one.texts_expired}
    for score in scores:
        heuristic = " (heuristic)" if "heuristic" in score.flags else ""
        value = "" if score.score is None else f" {score.score:.3f}"
        verdict = f"{score.judge_name}{heuristic}: {score.outcome.value}{value}"
        out.print(Text(f"{verdict}  {score.reason}".rstrip(), style="bold"))
        chance = f"stratum {score.stratum or '–'}, inclusion probability {score.inclusion_probability:g}"
        out.print(f"  {score.judge_id}, run {ident(score.run_id)}, judged {instant(score.judged_at)} UTC; {chance}")
        content = kept.get(score.key)
        if content is not None and score.run_id == LIVE_RUN and score.content_hash not in ("", content):
            out.print("  for different content than shown above: this id was sent again, and the first record was kept")
        usage = score.usage
        if usage.calls:
            tokens = f"{usage.input_tokens} + {usage.output_tokens} tokens"
            out.print(f"  {counted(usage.calls, 'call')}, {tokens}, {money(usage.cost_usd)}, {usage.latency_ms:.0f} ms")
        if score.feedback:
            out.print("  reason: " + harmless(score.feedback, limit=None if full else 400))
        if score.raw_reply:
            out.print("  raw reply: " + harmless(score.raw_reply, limit=None if full else 400))
        flags = [flag for flag in score.flags if flag != "heuristic"]
        if flags:
            out.print("  flags: " + ", ".join(map(harmless, flags)))
    for row in rows:
        out.print(Text(f"{row.judge_name}: not judged, {row.decision.value}", style="bold"))
        out.print(f"  {row.judge_id}, run {ident(row.run_id)}; {harmless(row.reason) or 'no further reason'}")


def show_people(out: Console, labels: list[Label], feedback: list[StoredFeedback]) -> None:
    """Labels and feedback."""
    for label in labels:
        note = f": {one_line(label.note)}" if label.note else ""
        out.print(f"label {ident(label.criterion)} = {label.value:g}  ({one_line(label.source)}){note}")
    for item in feedback:
        comment = f": {one_line(item.feedback.comment)}" if item.feedback.comment else ""
        out.print(f"feedback {item.feedback.value if item.feedback.value is not None else '–'}{comment}")


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else one_line(str(value), limit=40)
