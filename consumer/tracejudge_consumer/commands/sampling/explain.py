"""`tracejudge sampling explain`: which rule, stratum, rate, epoch and chance decided about a trace, for each judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import click

from tracejudge.errors import NotFound
from tracejudge.reports.sampling_plan import stored_signals
from tracejudge.sampling import EpochBook, SamplingPolicy, epoch_from_json, sample
from tracejudge.scores import LIVE_RUN, SHADOW_RUN, LedgerRow, Score
from tracejudge.store import StoredTrace
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, instant, to_json
from tracejudge_consumer.wiring import connect_store, sampling_policy
from tracejudge_sdk.sampling import TAIL_SALT, position


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One judge's decision. `draw` is where the trace stands in [0, 1): below `tail` it is judged.

    `stored_probability` and `stored_outcome` are what was written when it was decided, None where nothing was.
    """

    environment: str
    app: str
    event_time: datetime
    judge_name: str
    kept: bool
    filtered: bool
    rule: str
    stratum: str
    head: float
    tail: float
    probability: float
    draw: float
    epoch: int | None
    epoch_starts_at: datetime | None
    stored_probability: float | None
    stored_outcome: str | None
    texts_expired: bool

    @property
    def agrees(self) -> bool:
        """False when the stored chance is another one: the policy has been changed since."""
        return self.stored_probability is None or abs(self.stored_probability - self.probability) < 1e-12


@click.command(
    name="explain",
    epilog="""\b
Examples:
  tracejudge sampling explain 01890a5d-ac96-774b-bcce-b302099a8057
  tracejudge sampling explain t-17 --app shop --json

The current policy is applied to the stored trace again, with the epoch of its event time. If the stored decision
differs, the policy has changed since, and the stored probability is the one that counts.""",
)
@click.argument("trace_id")
@config_option
@json_option
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
def explain(trace_id: str, config: str, as_json: bool, environment: str | None, app: str | None) -> None:
    """Show the rule, stratum, rate, epoch and probability that decided about a trace, per judge."""
    settings = load_settings(config, require_caps=False)
    policy, names = sampling_policy(settings), [spec.name for spec in settings.judges]
    with connect_store(settings) as store:
        traces = store.traces.get(trace_id, environment=environment, app=app)
        if not traces:
            raise NotFound(f"no trace {trace_id!r} in the store; `tracejudge find` and `tracejudge tail` show ids")
        scores = store.scores.of_trace(trace_id, environment=environment, app=app)
        ledger = store.ledger.of_trace(trace_id, environment=environment, app=app)
        found = []
        for stored in traces:
            at = stored.trace.event_time
            rows = store.sampling_epochs.in_force(at, at).epochs
            book = EpochBook(epoch_from_json(one.epoch, one.starts_at, one.rates) for one in rows)
            found += explained(stored, policy, names, book, [*scores, *ledger])
    if as_json:
        click.echo(to_json(found))
        return
    out = console()
    for one in found:
        out.print(f"{ident(one.judge_name)} on {ident(trace_id)} of {ident(one.app)} ({ident(one.environment)}):")
        verdict = "filtered" if one.filtered else "chosen" if one.kept else "not selected"
        out.print(f"  {verdict} by {ident(one.rule)}")
        if not one.filtered:
            sign = "below" if one.kept else "not below"
            out.print(f"  the id hashes to {one.draw:.6f}, {sign} the rate {one.tail:.6g}")
            out.print(f"  probability {one.probability:.6g} = head {one.head:g} x tail {one.tail:.6g}")
        out.print(f"  stratum {ident(one.stratum) or '– (the rest)'}")
        if one.epoch_starts_at is not None:
            out.print(f"  epoch {one.epoch}, in force from {instant(one.epoch_starts_at)} UTC")
        elif policy.has_epochs:
            out.print("  served before the first epoch: the policy as written")
        if one.stored_outcome is not None:
            out.print(f"  stored: {one.stored_outcome}, probability {one.stored_probability:.6g}")
        if one.texts_expired:
            out.print(
                "  its texts are past their retention: conditions on question or answer, or on signals that were not "
                "stored with it, are not seen any more"
            )
        elif not one.agrees:
            out.print("  the stored probability differs: the policy has changed since, and the stored one counts")


def explained(
    stored: StoredTrace,
    policy: SamplingPolicy,
    judge_names: Sequence[str],
    epochs: EpochBook,
    rows: Sequence[Score | LedgerRow],
) -> list[Explained]:
    """The decision of the policy for each judge, beside what was stored."""
    trace = stored.trace
    epoch = epochs.at(trace.event_time)
    sampled = sample(trace, stored_signals(stored), policy, judge_names, epoch)
    ours = [
        row
        for row in rows
        if (row.environment, row.app) == (trace.environment, trace.app) and row.run_id in (LIVE_RUN, SHADOW_RUN)
    ]
    found = []
    for name, decision in sampled.decisions.items():
        row = next((row for row in ours if row.judge_name == name), None)
        outcome = None if row is None else row.outcome.value if isinstance(row, Score) else row.decision.value
        found.append(
            Explained(
                environment=trace.environment,
                app=trace.app,
                event_time=trace.event_time,
                judge_name=name,
                kept=decision.kept,
                filtered=decision.filtered,
                rule=decision.rule,
                stratum=sampled.stratum,
                head=trace.head_probability,
                tail=decision.inclusion_probability / trace.head_probability,
                probability=decision.inclusion_probability,
                draw=position(trace.trace_id, TAIL_SALT) / 2**64,
                epoch=None if epoch is None else epoch.number,
                epoch_starts_at=None if epoch is None else epoch.starts_at,
                stored_probability=None if row is None else row.inclusion_probability,
                stored_outcome=outcome,
                texts_expired=stored.texts_expired,
            )
        )
    return found
