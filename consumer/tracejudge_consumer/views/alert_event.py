"""One alert event on the terminal: whose it is and under what id, what it says, and the numbers behind it."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.judges.hold_mark import hold_says
from tracejudge.alerts.telling.told import evidence_lines, evidence_link, where_it_fell
from tracejudge_consumer.terminal.rendering import ident, instant
from tracejudge_consumer.views.alert_numbers import numbers_say

_WIDTH = 18


def heading(event: AlertEvent) -> str:
    """When, what, by which rule, and the id that `alerts show` and the verbs take."""
    heuristic = ", heuristic" if event.heuristic else ""
    rule = ident(event.series.rule)
    return f"{instant(event.at)}  {event.kind} ({event.severity}{heuristic})  {rule}  {ident(event.event_id)}"


def show_event(out: Console, event: AlertEvent) -> None:
    """Prints an event with its evidence: numbers and ids, as the channels get them."""
    _show_head(out, event)
    lines = evidence_lines(event)
    for line in lines:
        out.print(f"  {ident(line)}")
    if (link := evidence_link(event)) is not None:
        out.print(f"  page: {ident(link)}")
    numbers = numbers_say(event)
    worst = event.evidence.get("worst_trace_ids")
    if not lines and isinstance(worst, list | tuple) and worst:
        numbers.append(("worst traces", ", ".join(map(str, worst[:5]))))
    for name, said in numbers:
        out.print(f"  {name:<{_WIDTH}} {ident(said)}")


def show_briefly(out: Console, event: AlertEvent) -> None:
    """Prints an event in two lines, with where it fell and that it is held back where this is so."""
    _show_head(out, event)
    if where := where_it_fell(event):
        out.print(f"  {ident(where)}")


def _show_head(out: Console, event: AlertEvent) -> None:
    out.print(Text(heading(event), style="bold"))
    out.print(f"  {ident(event.summary)}")
    if (says := hold_says(event)) is not None:
        out.print(f"  {says}")
