"""`tracejudge anchors list|show`: which sets there are, and where each judge stands with them."""

from __future__ import annotations

from typing import Any, Final

import click

from tracejudge.alerts import JUDGE_DRIFT_RULE, SeriesStatus
from tracejudge.anchors import AnchorSet
from tracejudge.counted import counted
from tracejudge.errors import SettingsError
from tracejudge_consumer.anchors.report import JudgeReport, RoundLine, judge_report, judges_of, report_lines
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, instant, interval, percent, table, to_json
from tracejudge_consumer.wiring import connect_store, stored_series

_FLIPS_SHOWN = 10


@click.command(name="list", epilog="\b\nExample:\n  tracejudge anchors list")
@config_option
@json_option
def list_anchors(config: str, as_json: bool) -> None:
    """List anchor sets."""
    with connect_store(load_settings(config, require_caps=False)) as store:
        sets = [store.anchors.load(set_id) for set_id in store.anchors.names()]
        judges = {one.set_id: judges_of(store, one) for one in sets}
    if as_json:
        click.echo(to_json({"sets": [{**_facts(one), "judges": judges[one.set_id]} for one in sets]}))
        return
    if not sets:
        console().print("no anchors yet: `tracejudge anchors build NAME` freezes a set")
        return
    rows = [
        [
            ident(one.set_id),
            instant(one.built_at),
            str(len(one.anchors)),
            str(sum(bool(anchor.labels) for anchor in one.anchors)),
            str(one.gone),
            ", ".join(map(ident, judges[one.set_id])) or "–",
        ]
        for one in sets
    ]
    columns = [("set", "left"), ("frozen at", "left"), ("anchors", "right"), ("labelled", "right")]
    console().print(table("Anchors", [*columns, ("forgotten", "right"), ("judged by", "left")], rows))


@click.command(
    name="show",
    epilog="""\b
Examples:
  tracejudge anchors show                 the set of the settings
  tracejudge anchors show golden --judge faithfulness""",
)
@click.argument("name", required=False)
@config_option
@json_option
@click.option("--judge", default=None, help="Only this judge (name or JudgeId).")
@click.option(
    "--rounds", type=click.IntRange(1, 1000), default=15, show_default=True, help="Number of latest rounds shown."
)
def show(name: str | None, config: str, as_json: bool, judge: str | None, rounds: int) -> None:
    """Show how each judge agrees with its first round on a set, and with human labels."""
    settings = load_settings(config, require_caps=False)
    chosen = name or settings.anchors.set
    if chosen is None:
        raise SettingsError([f'anchors show: name a set, or write set = "NAME" under [anchors] in {config}'])
    with connect_store(settings) as store:
        anchors = store.anchors.load(chosen)
        reports = [
            judge_report(store, anchors, judge_id, limit=rounds)
            for judge_id in judges_of(store, anchors)
            if judge in (None, judge_id, judge_id.rpartition("@")[0])
        ]
        series = [one for one in stored_series(settings, store) if _of_set(one, anchors)]
        if as_json:
            click.echo(to_json({**_facts(anchors), "judges": reports, "series": series}))
            return
        _tell(anchors, reports, series)


def _tell(anchors: AnchorSet, reports: list[JudgeReport], series: list[SeriesStatus]) -> None:
    out = console()
    gone = f", {anchors.gone} forgotten since" if anchors.gone else ""
    out.print(
        f"{ident(anchors.set_id)}: {counted(len(anchors.anchors), 'anchor')}, "
        f"frozen at {instant(anchors.built_at)} UTC{gone}"
    )
    if not reports:
        out.print(f"not judged yet: tracejudge anchors run {ident(anchors.name)}")
    for report in reports:
        heuristic = " (heuristic)" if report.heuristic else ""
        states = {dict(one.key.group)["against"]: one for one in series if one.key.judge_id == report.judge_id}
        out.print(f"\n{ident(report.judge_id)}{heuristic}: {_state(states)}")
        for line in report_lines(report):
            out.print(f"  {line}")
        for against, status in states.items():
            what = "itself" if against == "reference" else "people"
            if status.boundary is not None:
                out.print(f"  fires when it agrees with {what} on less than {percent(status.boundary)}")
        _flips(anchors, report)
        out.print(table("Rounds", _COLUMNS, [_row(line) for line in report.rounds]))


_COLUMNS = [("round", "left"), ("because of", "left"), ("same as first", "right"), ("of all", "right")]
_COLUMNS += [("right by labels", "right"), ("passes", "right"), ("invalid", "right"), ("model", "left")]


def _row(line: RoundLine) -> list[str]:
    model = f"{line.model} {line.fingerprint}".strip()
    return [
        instant(line.round_at),
        line.cause.replace("_", " ") + ("" if line.finished else ", unfinished"),
        percent(line.same.value),
        interval(line.same.low, line.same.high),
        percent(line.right.value),
        percent(line.passes.value),
        str(line.invalid),
        ident(model) or "–",
    ]


_LEARNING: Final = (
    "learning its usual agreement, which takes a round or two, or more if it is noisy; until then it counts as "
    "moved only if far more verdicts flip one way than the other"
)


def _state(states: dict[str, SeriesStatus]) -> str:
    """The worst of its series."""
    if any(one.state == "firing" for one in states.values()):
        return "moved"
    if not states or all(one.state == "warming_up" for one in states.values()):
        return _LEARNING if states else "not read by the alert loop yet (`tracejudge watch` or `up`)"
    return "steady"


def _flips(anchors: AnchorSet, report: JudgeReport) -> None:
    if report.moved is None or not report.moved.flipped:
        return
    traces = {anchor.case_id: anchor.trace for anchor in anchors.anchors}
    for what, cases in (("passed, fail now", report.moved.now_failed), ("failed, pass now", report.moved.now_passed)):
        there = [traces[case] for case in cases if case in traces]
        if there:
            shown = ", ".join(ident(trace.trace_id) for trace in there[:_FLIPS_SHOWN])
            more = f" and {len(there) - _FLIPS_SHOWN} more" if len(there) > _FLIPS_SHOWN else ""
            console().print(f"  {what}: {shown}{more}")


def _of_set(status: SeriesStatus, anchors: AnchorSet) -> bool:
    return status.key.rule == JUDGE_DRIFT_RULE and dict(status.key.group).get("anchors") == anchors.set_id


def _facts(anchors: AnchorSet) -> dict[str, Any]:
    return {
        "set_id": anchors.set_id,
        "built_at": anchors.built_at,
        "anchors": len(anchors.anchors),
        "labelled": sum(bool(anchor.labels) for anchor in anchors.anchors),
        "forgotten": anchors.gone,
        "origin": anchors.origin,
    }
