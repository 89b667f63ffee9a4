"""`tracejudge judges adopt`: the judge of a replay becomes the live one, and its history comes with it."""

from __future__ import annotations

from datetime import datetime

import click

from tracejudge.counted import counted
from tracejudge.errors import CheckFailed, NotFound, SettingsError
from tracejudge.judging import JudgeSpec
from tracejudge.replay import judge_ids_of, selection_of, spec_of
from tracejudge.reports import Comparison, compare, in_words
from tracejudge.scores import LIVE_RUN
from tracejudge.store import RunManifest, Store
from tracejudge_consumer.alerting.adoption import adopt as adopt_judge
from tracejudge_consumer.choosing.named_run import no_run
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.options import Moment, config_option, json_option
from tracejudge_consumer.terminal.person import this_person
from tracejudge_consumer.terminal.rendering import console, ident, instant, interval, percent, to_json
from tracejudge_consumer.wiring import connect_store


@click.command(
    name="adopt",
    epilog="""\b
Examples:
  tracejudge replay --judge new-judge.toml --since 30d --run try-1
  tracejudge compare live:faithfulness try-1
  (put the judge of new-judge.toml into tracejudge.toml, in place of the old one)
  tracejudge judges adopt try-1 --note "new prompt, agrees better with the labels"
  (restart the consumers)

From then on rates under this name use the new judge. Verdicts of the old one stay as they are; the run keeps the
history as judged by the new one (`tracejudge rates --run try-1`). Rules with a learned baseline start from the run's
result, or from the old baseline shifted by the difference on traces judged by both, whichever is more precise: no new
warm-up. A run over chosen traces (--where, --version, --from ...) does so only for rules that group by what chose them.
A shadow judge (shadow = true) is bridged in the same way once it takes over the old one's name.""",
)
@click.argument("run_id", metavar="RUN")
@config_option
@json_option
@click.option("--judge", default=None, help="Judge to adopt, if the run has several.")
@click.option(
    "--from", "live_from", type=Moment(), default=None, help="Start of being live, by event time.  [default: now]"
)
@click.option("--note", default="", help="Reason, recorded with the adoption.")
def adopt(run_id: str, config: str, as_json: bool, judge: str | None, live_from: datetime | None, note: str) -> None:
    """Make the judge of a finished replay the live judge of its name."""
    settings = load_settings(config)
    with connect_store(settings) as store:
        run = _run(store, run_id)
        spec, narrowed_by = _judge_of(run, judge), _narrowed_by(run)
        _check_settings(settings, spec, config)
        now = store.now()
        at = live_from or now
        before = [one for one in store.judges.adoptions(spec.name) if one.live_from <= now]
        old = before[-1].judge_id if before else None
        if old == spec.judge_id():  # a consumer with the new settings was faster: its moment stands
            at = before[-1].live_from
            if live_from is not None and live_from > now:
                raise click.BadParameter(
                    f"{instant(live_from)} UTC is in the future, but {old} has been live since {instant(at)} UTC: omit "
                    "--from to keep that",
                    param_hint="--from",
                )
            old = before[-2].judge_id if len(before) > 1 else None
        bridge = None
        if old is not None:
            pairs = store.scores.pairs(LIVE_RUN, run_id, judge_a=old, judge_b=spec.judge_id())
            bridge = compare(pairs, kept_flips=0)
        said = " ".join(part for part in (f"run {run_id}.", _bridge(bridge), note) if part)
        adopt_judge(store, spec, run_id=run_id, live_from=at, now=now, by=this_person(), note=said)
    if as_json:
        told = {"run": run_id, "judge_id": spec.judge_id(), "before": old, "live_from": at, "bridge": bridge}
        click.echo(to_json({**told, "narrowed_by": narrowed_by}))
        return
    out, new = console(), ident(spec.judge_id()) + (" (heuristic)" if spec.heuristic else "")
    if old is None and before:  # the first of its name: it is live since its first trace, and replaces nothing
        out.print(f"{new} is already live and replaces no earlier judge of this name")
    else:
        instead = f"replacing {ident(old)}" if old is not None else "the first judge of its name"
        out.print(f"{new} is live from {instant(at)} UTC, {instead}")
    if live_from is not None and live_from != at:
        out.print(f"--from {instant(live_from)} UTC is ignored: the judge was already live")
    if bridge is not None and bridge.agreement.counts.n:
        out.print(_bridge(bridge))
        for sentence in in_words(bridge, a="the old one", b="the new one"):
            out.print(f"{sentence[0].upper()}{sentence[1:]}")
    elif old is not None:
        out.print("The old judge judged none of the run's traces, so the two cannot be bridged.")
    if narrowed_by:
        fields = ", ".join(map(ident, narrowed_by))
        out.print(
            f"Run {ident(run_id)} is of chosen traces only ({fields}): baselines of its alert rules start from "
            "it only where a rule groups by these, and are learned anew or bridged by other runs elsewhere."
        )
    else:
        out.print("Baselines of its alert rules start from the run's result, or from the old baseline shifted by the")
        out.print("difference, whichever is more precise.")
    out.print("See the event judge_changed. Restart the consumers now.")
    out.print(f"next: tracejudge rates --run {ident(run_id)} --judge {ident(spec.name)} --step 1d")


def _run(store: Store, run_id: str) -> RunManifest:
    run = store.runs.get(run_id)
    if run is None:
        replays = [one.run_id for one in store.runs.all()]
        raise no_run(run_id, replays)
    if selection_of(run) is None:
        raise CheckFailed(
            f"run {run_id!r} is not a replay by this release: replay the history again, then adopt that run"
        )
    if run.finished_at is None:
        raise CheckFailed(f"run {run_id!r} is not complete: start `tracejudge replay` with --run {run_id} again first")
    return run


def _narrowed_by(run: RunManifest) -> tuple[str, ...]:
    selection = selection_of(run)
    return () if selection is None else selection.narrowed_by


def _judge_of(run: RunManifest, judge: str | None) -> JudgeSpec:
    known = judge_ids_of(run)
    if judge is None and len(known) > 1:
        raise NotFound(f"run {run.run_id!r} has several judges: name one with --judge: {', '.join(known)}")
    spec = spec_of(run, judge or known[0])
    if spec is None:
        raise NotFound(f"run {run.run_id!r} has no judge {judge!r}; it has {', '.join(known)}")
    return spec


def _check_settings(settings: Settings, spec: JudgeSpec, config: str) -> None:
    """What judges live traffic is what the settings say: adopting another one would leave rates without scores."""
    mine = next((one for one in settings.judges if one.name == spec.name), None)
    if mine is None or mine.judge_id() != spec.judge_id():
        is_now = "has no judge of this name" if mine is None else f"has {mine.judge_id()}"
        raise SettingsError(
            [
                f"{config}: judge {spec.name!r} must be {spec.judge_id()}, but the file {is_now}; replace the old "
                "judge in it with the one that was replayed, then adopt the run and restart the consumers"
            ]
        )
    if mine.shadow:
        raise SettingsError([f"judges.{spec.name}.shadow: is true; a shadow judge cannot be live: remove it"])


def _bridge(bridge: Comparison | None) -> str:
    if bridge is None or bridge.a.rate is None or bridge.b.rate is None:
        return ""
    old, new = bridge.a.rate, bridge.b.rate
    return (
        f"On {counted(bridge.agreement.counts.n, 'answer')} judged by both: {percent(old.estimate)} "
        f"({interval(old.low, old.high)}) under the old one, {percent(new.estimate)} "
        f"({interval(new.low, new.high)}) under the new one."
    )
