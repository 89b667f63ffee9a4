"""A folder of pages about alerts: one file an event, written whole or not at all, and gone when its time is over."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tracejudge.alerts import AlertEvent

_NAME: Final = re.compile(r"([0-9a-f]{32})\.html")
_FORGOTTEN: Final = "forgotten"  # what `forget` leaves where an id stood
_AT_ONCE: Final = 500


class EvidencePages:
    """Pages in `folder`, found by others under `url`; without one, links name the file. `keep` is how long after its
    writing a page may stay.

    Only files named by an event id are ever touched: the folder may hold others, and pages of other stores.
    """

    def __init__(self, folder: str | Path, *, url: str | None = None, keep: timedelta) -> None:
        self._folder = Path(folder).expanduser().absolute()
        self._url = url
        self._keep = keep

    def link(self, event_id: str) -> str:
        """Where the page of an event is, or would be."""
        name = f"{event_id}.html"
        if self._url is None:
            return (self._folder / name).as_uri()
        return f"{self._url}{'' if self._url.endswith(('/', '=')) else '/'}{name}"

    def write(self, event_id: str, html: str) -> str:
        """Writes the page and gives its link. Again gives the same file. Raises OSError."""
        if not _NAME.fullmatch(f"{event_id}.html"):
            raise ValueError(f"event id {event_id!r} is not 32 hexadecimal digits; it cannot name a file")
        self._folder.mkdir(parents=True, exist_ok=True)
        target = self._folder / f"{event_id}.html"
        # Beside it first: whoever opens the link never sees half a page, and a kill leaves the old one.
        draft = self._folder / f".{event_id}.{os.getpid()}.tmp"
        try:
            draft.write_text(html, encoding="utf-8")
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        return self.link(event_id)

    def sweep(self, *, now: datetime, events: Callable[[Sequence[str]], Iterable[AlertEvent]]) -> int:
        """Removes pages past their retention, and pages of events that name a trace which was forgotten since. Returns
        their number. Raises OSError."""
        held = self._held()
        gone = {name for name, written in held.items() if now - written > self._keep}
        rest = sorted(held.keys() - gone)
        for first in range(0, len(rest), _AT_ONCE):
            gone |= {one.event_id for one in events(rest[first : first + _AT_ONCE]) if _names_forgotten(one)}
        for name in gone:
            (self._folder / f"{name}.html").unlink(missing_ok=True)
        return len(gone)

    def _held(self) -> dict[str, datetime]:
        """Event ids with a page, and when it was written."""
        if not self._folder.is_dir():
            return {}
        found = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                match = _NAME.fullmatch(entry.name)
                if match is not None and entry.is_file(follow_symlinks=False):
                    found[match[1]] = datetime.fromtimestamp(entry.stat(follow_symlinks=False).st_mtime).astimezone()
        return found


def _names_forgotten(event: AlertEvent) -> bool:
    worst = event.evidence.get("worst_trace_ids")
    return isinstance(worst, list | tuple) and _FORGOTTEN in worst
