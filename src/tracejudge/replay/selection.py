"""Which traces a run is about, as a value that a manifest keeps: a resumed run asks for the very same ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final

from tracejudge.store import Draw, TraceFilter

_TYPED_APART: Final = timedelta(minutes=1)
"""Between reading a command and beginning its run: files are hashed, a store is connected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of traces, by its path and its content."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Traces of the store, or of `files` where there are any, that meet `where`; `sample` of them where a number is
    given, the same ones for the same `seed`. `against`: the version whose answers to the same questions (case_id) those
    of the selection are held against, pair by pair."""

    where: TraceFilter
    files: tuple[SourceFile, ...] = ()
    sample: int | None = None
    seed: int = 0
    against: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON values; `from_dict` gives an equal selection."""
        where = {one.name: _json(getattr(self.where, one.name)) for one in fields(self.where)}
        draw = self.where.draw
        where["draw"] = None if draw is None else [draw.seed, str(draw.at_most)]  # 64 bits are no JSON number
        values: dict[str, Any] = {
            "where": where,
            "files": [{"path": one.path, "sha256": one.sha256} for one in self.files],
            "sample": self.sample,
            "seed": self.seed,
        }
        # Not at all where there is none: runs of releases that knew no pairs keep their hash.
        return values if self.against is None else {**values, "against": self.against}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Selection:
        where = dict(value["where"])
        for name in ("start", "end"):
            where[name] = None if where[name] is None else datetime.fromisoformat(where[name])
        where["trace_ids"] = tuple(where["trace_ids"])
        where["also"] = tuple((field, wanted) for field, wanted in where["also"])
        where["draw"] = None if where["draw"] is None else Draw(seed=where["draw"][0], at_most=int(where["draw"][1]))
        files = tuple(SourceFile(**one) for one in value["files"])
        return cls(
            where=TraceFilter(**where),
            files=files,
            sample=value["sample"],
            seed=value["seed"],
            against=value.get("against"),
        )

    @property
    def narrowed_by(self) -> tuple[str, ...]:
        """The fields by which traces of an app are left out: the run speaks for its traffic only within their values.
        A time range and a random sample leave out none in this sense; of files one cannot know ("--from")."""
        where = self.where
        asked = ("version", "category", "user_id", "session_id", "status", "trace_ids", "contains")
        names = {name for name in asked if getattr(where, name)} | {name for name, _ in where.also}
        names |= {name for name, there in (("--from", self.files), ("--against", self.against)) if there}
        return tuple(sorted(names))

    @property
    def digest(self) -> str:
        """32 hex digits: equal selections have equal ones. Files count by their content, wherever they lie."""
        text = json.dumps(self._by_content(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def asks_as(self, other: Selection) -> bool:
        """Whether both ask the same but for their times, which move with the clock when they are given as "30d"."""
        mine, theirs = self._by_content(), other._by_content()
        for value in (mine, theirs):
            for name in ("start", "end", "draw"):
                del value["where"][name]
        return mine == theirs

    def _by_content(self) -> dict[str, Any]:
        return {**self.as_dict(), "files": [one.sha256 for one in self.files]}


def other_times(known: TraceFilter, asked: TraceFilter, *, begun_at: datetime, now: datetime) -> str:
    """In words, that a run which began at `begun_at` with the times of `known` is asked for others now; "" when not.

    The same instant is the same, and so is the same length of time before the command ("30d"); a time that is left out
    is the run's own.
    """
    for name, then, at in (("start", known.start, asked.start), ("end", known.end, asked.end)):
        if at is None or then == at:
            continue
        option = "--since" if name == "start" else "--until"
        if then is None:
            return f"goes back to the first trace, not to {at.isoformat(timespec='seconds')} ({option})"
        if abs((then - begun_at) - (at - now)) > _TYPED_APART:
            word = "starts at" if name == "start" else "ends at"
            told = (one.isoformat(timespec="seconds") for one in (then, at))
            return f"{word} {', not at '.join(told)} ({option})"
    return ""


def _json(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return [list(one) if isinstance(one, tuple) else one for one in value] if isinstance(value, tuple) else value
