"""The outcome of a chaos run as the text that people read."""

from __future__ import annotations

from tests.support.chaos.run import RESTARTED, Outcome


def table(outcome: Outcome, *, least: int) -> str:
    """What happened how often (each fault at least `least` times), what became of the traces, what was spent."""
    plan, findings = outcome.plan, outcome.findings
    lines = [
        f"chaos run: seed {plan.seed}, {plan.traces} traces, {outcome.seconds:.0f} s",
        "",
        f"{'fault':48} {'times':>7}  at least",
    ]
    for name, times in sorted(outcome.happened.items(), key=lambda item: item[0] == RESTARTED):
        goal = "" if name == RESTARTED else f"{least}" + ("" if times >= least else "  TOO FEW")
        lines.append(f"{name:48} {times:7}  {goal}")
    for judge, fates in findings.fates.items():
        said = ", ".join(f"{count} {fate}" for fate, count in fates.most_common())
        lines += ["", f"{judge}: {fates.total()} traces = {said}"]
    spent = findings.spent
    lines += [
        "",
        f"verdicts bought: {spent.bought} for {spent.verdicts} traces; at most {spent.allowed} = {spent.verdicts} + "
        f"{spent.in_flight_at_kills} in flight at kills and pauses + {spent.in_flight_when_lost} on partitions lost",
        f"answers that came too late for their caller: {spent.late}",
        "",
    ]
    if findings.faults:
        lines += ["FAULTS", *(f"  {fault}" for fault in findings.faults)]
    else:
        lines.append(
            "nothing lost, nothing counted twice: scores, ledger, dead letters and pass rates are the oracle's"
        )
    return "\n".join(lines)


def too_few(outcome: Outcome, *, least: int) -> list[str]:
    """The faults that did not happen often enough to prove anything."""
    return [name for name, times in outcome.happened.items() if name != RESTARTED and times < least]
