"""The gate's result for machines and for a pull request: JUnit XML and Markdown."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from tracejudge.gate.decide import Check, Decided, GateResult

_SHOWN_CASES = 20
_MARKS = {Decided.PASSED: "✅", Decided.FAILED: "❌", Decided.UNDECIDED: "❔"}

_ENTITIES = {ord(char): f"&#{ord(char)};" for char in "&\\|<>[]*_@#`~"}
"""In one pass: what stands for one sign holds others of them."""


def junit_xml(result: GateResult) -> str:
    """A test suite with one test a check; an undecided one is an error, so that no dashboard shows it as passed."""
    suite = ElementTree.Element(
        "testsuite",
        name="tracejudge gate",
        tests=str(len(result.checks)),
        failures=str(sum(check.decided is Decided.FAILED for check in result.checks)),
        errors=str(sum(check.decided is Decided.UNDECIDED for check in result.checks)),
    )
    for check in result.checks:
        case = ElementTree.SubElement(suite, "testcase", classname="tracejudge", name=_xml(check.name))
        if check.decided is not Decided.PASSED:
            kind = "failure" if check.decided is Decided.FAILED else "error"
            detail = ElementTree.SubElement(case, kind, message=_xml(f"{check.words}: {seen(check)}"))
            detail.text = _xml("\n".join(check.changed[:_SHOWN_CASES]))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def markdown(result: GateResult) -> str:
    """A table for a comment; names of cases come from datasets and are kept from being markup."""
    lines = [
        f"### tracejudge gate: {result.decided.value}",
        "",
        "| | check | seen | cases | |",
        "|---|---|---|---|---|",
    ]
    for check in result.checks:
        cells = (_MARKS[check.decided], check.name, seen(check), str(check.cases), check.words)
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    for check in result.checks:
        if check.decided is Decided.FAILED and check.changed:
            more = len(check.changed) - _SHOWN_CASES
            cases = ", ".join(map(_case, check.changed[:_SHOWN_CASES]))
            lines += [
                "",
                f"Passed before, fail now ({_cell(check.name)}): {cases}" + (f" and {more} more" if more > 0 else ""),
            ]
    return "\n".join(lines) + "\n"


def seen(check: Check) -> str:
    """The estimate with its interval, as a person reads it."""
    estimate = check.estimate
    if estimate is None:
        return "nothing"
    if check.kind == "latency":
        return f"{estimate.value:.0f} ms"
    if check.kind in ("max_drop", "anchors"):
        return f"{100 * estimate.value:+.1f} points ({100 * estimate.low:+.1f} to {100 * estimate.high:+.1f})"
    return f"{100 * estimate.value:.1f} % ({100 * estimate.low:.1f} to {100 * estimate.high:.1f})"


def _cell(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain.translate(_ENTITIES)


def _case(name: str) -> str:
    """A name that a customer may have chosen. GitHub looks for people to notify once all markup is read, but not in
    code; and for addresses without one before."""
    return f"<code>{_cell(name).replace(':', '&#58;').replace('.', '&#46;')}</code>"


def _xml(text: str) -> str:
    # XML has no place for control characters, escaped or not.
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)
