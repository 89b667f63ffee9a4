"""Two files of answers to the same questions, for a judge that says which of two answers is better."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tracejudge.datasets import BrokenLine, EventTimes, Line, RecordLine
from tracejudge.errors import NothingToDecide, SettingsError
from tracejudge_consumer.files.form import FileForm


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedForm(FileForm):
    """Reads the lines whose case_id the other file answers too; each carries that answer in the place of the reference,
    which is what a pairwise judge compares with. The others are passed over."""

    others: dict[tuple[str, str], str]  # (app, case_id) to the other answer

    def lines(
        self, path: Path, *, app: str | None, event_time: EventTimes | None = None
    ) -> Iterator[Line | RecordLine | BrokenLine]:
        # By name: a class with slots is made twice, and a bare super() would mean the first.
        for line in FileForm.lines(self, path, app=app, event_time=event_time):
            if isinstance(line, Line):
                other = self.others.get((line.trace.app, line.trace.case_id or ""))
                if other is not None:
                    yield replace(line, trace=line.trace.model_copy(update={"reference": other}))
            else:
                yield line


def paired(form: FileForm, path: Path, *, app: str) -> PairedForm:
    """The form that pairs lines with the answers of `path`.

    Memory grows with these answers. Raises NothingToDecide where no line has both a case_id and a response,
    SettingsError for two answers to one case: which of them is meant cannot be known.
    """
    others: dict[tuple[str, str], str] = {}
    for line in form.lines(path, app=app):
        if isinstance(line, Line) and line.trace.case_id and line.trace.response is not None:
            case = line.trace.app, line.trace.case_id
            if others.setdefault(case, line.trace.response) != line.trace.response:
                raise SettingsError(
                    [
                        f"{path}, line {line.number}: a second answer to case {case[1]!r} of app {case[0]!r}, and only "
                        "one can be compared: remove one of them, or give each question a case_id of its own"
                    ]
                )
    if not others:
        raise NothingToDecide(
            f"{path}: no line has a response and a case_id, by which answers to one question are paired: give the same "
            "question the same case_id in both files"
        )
    return PairedForm(form=form.form, resolver=form.resolver, others=others)
